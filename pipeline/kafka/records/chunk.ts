// A chunk of messages from a fetch: a copy of the records' bytes, with the base offset and base time of each segment.

import { type LogPartition, partitionOf } from '../../../transformers/log-partition.ts'
import { headersMaxDefault, type RawChunk } from '../../source.ts'
import { type ChunkContent, openRecordCursor, type Segment } from './record-cursor.ts'

/** A segment with its bytes: those of the fetch, or decompressed ones. */
export interface FoundSegment extends Segment {
  readonly bytes: Uint8Array
  /** True if nothing else references the bytes. */
  readonly owned: boolean
}

/** Memory of a segment and a chunk in addition to the bytes. */
const segmentBytes = 64
const chunkBytes = 256

/** The topic of a chunk, its partition, and the most headers of a message if they are not the default. */
export interface ChunkOrigin {
  readonly topic: string
  readonly at: LogPartition
  readonly headersMax?: number
}

/** A chunk that covers `[from, to)`, with its own bytes. @param next above `from` if the messages in between were deleted unread */
export function chunkOf(origin: ChunkOrigin, from: number, to: number, found: readonly FoundSegment[], next = from): RawChunk {
  const { topic, at, headersMax = headersMaxDefault } = origin
  const content = { topic, partition: partitionOf(at), headersMax, ...(adopt(found) ?? copy(found)) }
  const byteLength = content.bytes.buffer.byteLength + content.segments.length * segmentBytes + chunkBytes
  const chunk = { at, from, to, byteLength, cursor: () => openRecordCursor(content) }
  return next > from ? { ...chunk, lost: Math.min(next, to) - from } : chunk
}

/** Uses decompressed bytes without a copy, if the chunk needs most of their memory. */
function adopt(found: readonly FoundSegment[]): Pick<ChunkContent, 'bytes' | 'segments'> | undefined {
  const [segment] = found
  if (found.length !== 1 || !segment!.owned || 2 * (segment!.end - segment!.start) < segment!.bytes.buffer.byteLength) return undefined
  const { buffer, byteOffset, byteLength } = segment!.bytes
  return { bytes: Buffer.from(buffer as ArrayBuffer, byteOffset, byteLength), segments: found.map(placed(0)) }
}

function copy(found: readonly FoundSegment[]): Pick<ChunkContent, 'bytes' | 'segments'> {
  let length = 0
  for (const { start, end } of found) length += end - start
  // Not from Buffer's pool, which would be kept alive as a whole.
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
