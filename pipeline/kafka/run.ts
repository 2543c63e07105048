// A run of messages out of a fetch: the records it holds as bytes of its own, and where their offsets and times count from.

import type { RawRun } from '../source.ts'
import { openRecordCursor } from './record-cursor.ts'

/** Records that lie together and count from the same offset and time: those of a batch, or of a part of it. */
export interface Segment {
  /** Places in the bytes. */
  readonly start: number
  readonly end: number
  readonly baseOffset: number
  /** As in the batch's head. */
  readonly timestampMs: number
  readonly appendTime: boolean
}

/** A segment where it was found: in the fetch's own bytes, or decompressed. */
export interface FoundSegment extends Segment {
  readonly bytes: Uint8Array
  /** Nobody else holds the bytes. */
  readonly owned: boolean
}

/** What a cursor walks. */
export interface RunContent {
  readonly topic: string
  readonly partition: number
  readonly bytes: Buffer
  readonly segments: readonly Segment[]
}

/** What a segment and a run take in memory beside the bytes. */
const segmentBytes = 64
const runBytes = 256

/** A run that covers `[from, to)`, with bytes of its own. @param next above `from` where what is between was deleted unread */
export function runOf(topic: string, partition: number, from: number, to: number, found: readonly FoundSegment[], next = from): RawRun {
  const content = { topic, partition, ...(adopt(found) ?? copy(found)) }
  const byteLength = content.bytes.buffer.byteLength + content.segments.length * segmentBytes + runBytes
  const run = { partition, from, to, byteLength, cursor: () => openRecordCursor(content) }
  return next > from ? { ...run, lost: Math.min(next, to) - from } : run
}

/** Takes decompressed bytes as they are, where the run needs most of what they hold in memory. */
function adopt(found: readonly FoundSegment[]): Pick<RunContent, 'bytes' | 'segments'> | undefined {
  const [segment] = found
  if (found.length !== 1 || !segment!.owned || 2 * (segment!.end - segment!.start) < segment!.bytes.buffer.byteLength) return undefined
  const { buffer, byteOffset, byteLength } = segment!.bytes
  return { bytes: Buffer.from(buffer as ArrayBuffer, byteOffset, byteLength), segments: found.map(placed(0)) }
}

function copy(found: readonly FoundSegment[]): Pick<RunContent, 'bytes' | 'segments'> {
  let length = 0
  for (const { start, end } of found) length += end - start
  // Not out of the pool, which would be kept alive as a whole.
  const bytes = Buffer.allocUnsafeSlow(length)
  let at = 0
  const segments = found.map(segment => {
    bytes.set(segment.bytes.subarray(segment.start, segment.end), at)
    const moved = placed(at - segment.start)(segment)
    at = moved.end
    return moved
  })
  return { bytes, segments }
}

function placed(by: number): (segment: FoundSegment) => Segment {
  return ({ start, end, baseOffset, timestampMs, appendTime }) => ({
    start: start + by,
    end: end + by,
    baseOffset,
    timestampMs,
    appendTime,
  })
}
