// Lines of a batch as the bodies of requests, and requests that are on their way at once.

import { promisify } from 'node:util'
import { constants, gzip, gzipSync } from 'node:zlib'
import type { EncodedLines } from './encoded-batch.ts'

const compress = promisify(gzip)

/** Lines by their index, in their order. */
export type Selection = readonly number[]

export interface BodySizes {
  /** Of the text. */
  readonly bodyBytes: number
  readonly requestsInFlight: number
}

/**
 * The lines, cut into bodies of about the same size: at most `bodyBytes`, and as many as can be in flight or a multiple of it where one is not
 * enough, so that none is sent alone at the end. They are cut between messages, behind the one that fills its share: the last body has what is left
 * then, and no other comes behind it with a line or two. Only a message that is larger than a body is cut itself.
 */
export function cutBodies(lines: EncodedLines, selection: Selection, sizes: BodySizes): Selection[] {
  const share = evenBytes(lines, selection, sizes)
  const bodies: number[][] = []
  let body: number[] = []
  let bytes = 0
  const cut = (): void => {
    if (body.length > 0) bodies.push(body)
    body = []
    bytes = 0
  }
  const isFull = (more: number): boolean => bytes >= share || bytes + more > sizes.bodyBytes
  for (let at = 0; at < selection.length; ) {
    const end = endOfMessage(lines, selection, at)
    const messageBytes = bytesOf(lines, selection, at, end)
    if (isFull(messageBytes)) cut()
    for (; at < end; at++) {
      const lineBytes = bytesOf(lines, selection, at, at + 1)
      if (messageBytes > sizes.bodyBytes && isFull(lineBytes)) cut()
      body.push(selection[at]!)
      bytes += lineBytes
    }
  }
  cut()
  return bodies
}

function evenBytes(lines: EncodedLines, selection: Selection, { bodyBytes, requestsInFlight }: BodySizes): number {
  const total = bytesOf(lines, selection, 0, selection.length)
  if (total <= bodyBytes) return bodyBytes
  return Math.ceil(total / (Math.ceil(total / bodyBytes / requestsInFlight) * requestsInFlight))
}

/** Behind the last place of the selection that has the message of the first. */
function endOfMessage({ message }: EncodedLines, selection: Selection, first: number): number {
  let end = first + 1
  while (end < selection.length && message[selection[end]!] === message[selection[first]!]) end++
  return end
}

/** Of the lines at these places of the selection. */
function bytesOf({ start }: EncodedLines, selection: Selection, first: number, end: number): number {
  let bytes = 0
  for (let at = first; at < end; at++) bytes += start[selection[at]! + 1]! - start[selection[at]!]!
  return bytes
}

/** Lightly: more would cost this process what the network saves. */
const compression = { level: constants.Z_BEST_SPEED }

/** The text of these lines, compressed on another thread. */
export async function bodyOf(lines: EncodedLines, selection: Selection): Promise<Uint8Array> {
  return await compress(textsOf(lines, selection), compression)
}

/** The same at once: for bodies that nothing is on its way before. */
export function bodyAtOnce(lines: EncodedLines, selection: Selection): Uint8Array {
  return gzipSync(textsOf(lines, selection), compression)
}

function textsOf(lines: EncodedLines, selection: Selection): Uint8Array {
  const runs: Uint8Array[] = []
  for (let at = 0; at < selection.length; ) {
    const first = at
    while (at + 1 < selection.length && selection[at + 1] === selection[at]! + 1) at++
    runs.push(lines.bytes.subarray(lines.start[selection[first]!], lines.start[selection[at]! + 1]))
    at++
  }
  return runs.length === 1 ? runs[0]! : Buffer.concat(runs)
}

/**
 * Works on each item, on so many at once. After a failure none is begun; it is thrown when those that were begun have ended.
 */
export async function eachAtOnce<Item>(items: readonly Item[], atOnce: number, work: (item: Item) => Promise<void>): Promise<void> {
  let next = 0
  let failure: { error: unknown } | undefined
  const lane = async (): Promise<void> => {
    while (next < items.length && failure === undefined) {
      try {
        await work(items[next++]!)
      } catch (error) {
        failure ??= { error }
      }
    }
  }
  await Promise.all(Array.from({ length: Math.min(atOnce, items.length) }, lane))
  if (failure !== undefined) throw failure.error
}

/** A line without its line end. */
export function textOf({ bytes, start }: EncodedLines, line: number): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset + start[line]!, start[line + 1]! - start[line]! - 1).toString('utf8')
}
