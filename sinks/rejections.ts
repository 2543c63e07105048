// The messages that a store refuses, kept with their encoded batch, so that each gets one dead letter however often the batch is written; and reasons
// that several stores have.

import { unlessAborted } from '../config/aborting.ts'
import { type MessageColumns, senmlFormat } from '../transformers/record-batch.ts'
import type { FormatRefusal, Formats, WantedFormat } from './formats.ts'
import type { Reject, Rejection } from './sink.ts'

export interface Rejections {
  /** Messages that the store can never store, by their index: found while encoding the batch or while writing it. */
  readonly rejected: Map<number, Rejection>
  /** The rejected messages whose dead letters are durable. */
  readonly acknowledged: Set<number>
}

export function noRejections(): Rejections {
  return { rejected: new Map(), acknowledged: new Set() }
}

/**
 * Makes the missing dead letters durable. After an abort they are still written, but nothing waits for them.
 *
 * @param isSettled true for messages whose dead letters an earlier batch made durable
 */
export async function acknowledge(
  { rejected, acknowledged }: Rejections,
  reject: Reject,
  signal: AbortSignal,
  isSettled: (message: number) => boolean = () => false,
): Promise<void> {
  if (rejected.size === acknowledged.size) return
  const rejections = [...rejected.values()].filter(({ message }) => !acknowledged.has(message) && !isSettled(message))
  if (rejections.length === 0) return
  rejections.sort((one, other) => one.message - other.message)
  await unlessAborted(reject(rejections), signal)
  for (const { message } of rejections) acknowledged.add(message)
}

/** A format in a batch, and the messages that use it. */
interface FormatOfBatch extends WantedFormat {
  readonly messages: Iterable<number>
}

/**
 * Creates what the JSON formats of a batch need, and rejects the messages of those that the store refuses. A format whose messages are all rejected
 * already needs nothing.
 *
 * @returns the refused formats
 */
export async function resolveFormats(
  formats: Formats,
  { rejected }: Rejections,
  used: readonly FormatOfBatch[],
  signal: AbortSignal,
): Promise<ReadonlyMap<string, FormatRefusal>> {
  const wanted = used.filter(({ format, messages }) => format !== senmlFormat && hasOther(messages, rejected))
  const refused = await formats.resolve(wanted, signal)
  for (const { format, messages } of wanted) {
    const refusal = refused.get(format)
    if (refusal === undefined) continue
    for (const message of messages) if (!rejected.has(message)) rejected.set(message, { message, ...refusal })
  }
  return refused
}

function hasOther(messages: Iterable<number>, rejected: ReadonlyMap<number, Rejection>): boolean {
  for (const message of messages) if (!rejected.has(message)) return true
  return false
}

/** Why a message is refused. */
export type Refusal = Omit<Rejection, 'message' | 'record'>

/** Why a message is refused whose ids are too long for the keys or indexes of a store; undefined if they are not. */
export function longIdentifiers(messages: MessageColumns, message: number, format: string, bytesMax: number): Refusal | undefined {
  const channel = messages.channel[message]!
  const publisher = messages.publisher[message]!
  if ((channel.length + publisher.length + format.length) * 3 <= bytesMax) return undefined
  const bytes = Buffer.byteLength(channel) + Buffer.byteLength(publisher) + Buffer.byteLength(format)
  if (bytes <= bytesMax) return undefined
  return {
    rule: 'identifier-length',
    reason: `channel, publisher and format have ${bytes} bytes together, and the store accepts at most ${bytesMax}`,
    hint: 'use shorter ids and subtopics',
  }
}

export const beyondInt64: Refusal = {
  rule: 'store-refused',
  reason: 'its time does not fit into an int64 of nanoseconds, which covers 1677 to 2262',
  hint: 'check the clock of the device, or the format of the time field',
}
