// Splits the fetched bytes of one partition into chunks of messages: checks and decompresses batch by batch.
//
// Skipped are: an incomplete batch at the end, which is fetched again; batches and messages below the requested offset,
// which a broker sends because it stores whole batches; control batches; and, for a reader of committed
// messages, those of aborted transactions. Their offsets are gaps in the range of a chunk; it names the last two kinds.

import { partitionOf } from '../../../transformers/log-partition.ts'
import type { OffsetRange, RawChunk } from '../../source.ts'
import { type AbortedTransaction, openAbortedTransactions } from './aborted-transactions.ts'
import { checkOffset, fieldAt, int64At, lengthBytes, lengthMin, readBatchHeader } from './batch-header.ts'
import { type ChunkOrigin, chunkOf, type FoundSegment } from './chunk.ts'
import { decompress } from './codecs.ts'
import { type BatchLocation, corruptBatch, LargeBatchError, oldBatch, refusedBatch } from './corrupt-batch.ts'
import { record, stepRecord } from './record-steps.ts'

/** Parameters of a fetch, in addition to the bytes. */
export interface Fetched extends ChunkOrigin {
  /** First offset that the first chunk covers. */
  readonly from: number
  /** The requested offset, if it is above `from` because the messages in between are lost. Messages below it are skipped. */
  readonly next?: number
  /** From the fetch response; without it uncommitted and aborted messages are read as well. */
  readonly aborted?: readonly AbortedTransaction[]
  /** Skips batches in formats older than Kafka 0.11: their offsets count as lost. Without it they are an error. */
  readonly skipBatch?: boolean
  /** A chunk ends with the message that reaches one of these limits. */
  readonly chunkBytesMax: number
  readonly chunkMessagesMax: number
}

/** The records of a batch, before they are split. */
interface BatchRecords extends FoundSegment {
  readonly count: number
  readonly lastOffset: number
  /** True if it is in an old format, and skipped. */
  readonly isLost: boolean
  /** True for a transaction marker, and for messages of an aborted transaction. */
  readonly isMarker: boolean
}

/**
 * The contiguous chunks of a record set: the first starts at `from`, and the end of the last one is the offset to fetch next. An empty set
 * has none. A chunk may cover offsets without containing messages. Batches are decompressed when a chunk is requested;
 * chunks do not reference `set`, but it must not change until the last one is read.
 *
 * @throws SystemicError if a batch is corrupt, unsupported, or larger than the set; chunks before it are returned first
 */
export function* chunksOf(set: Uint8Array, fetched: Fetched): Generator<RawChunk, void, undefined> {
  const { topic, chunkBytesMax, chunkMessagesMax } = fetched
  const partition = partitionOf(fetched.at)
  const next = fetched.next ?? fetched.from
  /** Messages below this offset, from the start of the current chunk on, are lost. */
  let lostTo = next
  let from = fetched.from
  let to = from
  let found: FoundSegment[] = []
  let markers: OffsetRange[] = []
  let messages = 0
  let bytes = 0

  try {
    for (const records of recordsOf(set, fetched, next)) {
      const { start, end, count, baseOffset, lastOffset } = records
      if (records.isLost) {
        // Lost offsets must be at the start of a chunk, where a store counts them once.
        if (to > Math.max(from, lostTo)) yield take()
        to = lostTo = lastOffset + 1
        continue
      }
      // The first batch may begin before the chunk.
      if (records.isMarker && lastOffset >= to) markers.push({ from: Math.max(baseOffset, to), to: lastOffset + 1 })
      let segmentStart = start
      let previous = baseOffset - 1
      let at = start
      for (let left = count; left > 0; left--) {
        if (!stepRecord(records.bytes, at, end)) throw corrupt(baseOffset, `its records are cut off after ${count - left} of ${count}`)
        // Copied, because other code may call stepRecord while this generator is suspended.
        const recordEnd = record.next
        const offset = baseOffset + record.offsetDelta
        if (offset <= previous || offset > lastOffset)
          throw corrupt(baseOffset, `offset ${offset} follows ${previous}, but ${lastOffset} is its last`)
        previous = offset
        if (offset < next) {
          segmentStart = recordEnd
        } else {
          messages++
          bytes += recordEnd - at
          if (messages >= chunkMessagesMax || bytes >= chunkBytesMax) {
            found.push(part(records, segmentStart, recordEnd))
            to = left === 1 ? lastOffset + 1 : offset + 1
            yield take()
            segmentStart = recordEnd
          }
        }
        at = recordEnd
      }
      if (at !== end) throw corrupt(baseOffset, `${end - at} bytes are left after its ${count} records`)
      if (at > segmentStart) found.push(part(records, segmentStart, at))
      to = Math.max(to, lastOffset + 1)
    }
  } catch (error) {
    // Messages before the fault are stored first, so that the position points to it.
    if (to > from) yield take()
    throw error
  }
  if (to > from) yield take()

  /** Returns the records found so far as a chunk; the next one starts after it. */
  function take(): RawChunk {
    const chunk = chunkOf(fetched, from, to, found, lostTo)
    const marked = markers
    from = to
    found = []
    markers = []
    messages = 0
    bytes = 0
    return marked.length === 0 ? chunk : { ...chunk, markers: marked }
  }

  function corrupt(offset: number, fault: string): Error {
    return corruptBatch({ topic, partition, offset }, fault)
  }
}

function part({ bytes, owned, baseOffset, timestampMs, appendTime }: FoundSegment, start: number, end: number): FoundSegment {
  return { bytes, owned, start, end, baseOffset, timestampMs, appendTime }
}

/** The records of each complete batch of the set; for a skipped one only its last offset. */
function* recordsOf(set: Uint8Array, fetched: Fetched, next: number): Generator<BatchRecords, void, undefined> {
  const { topic, aborted, skipBatch } = fetched
  const partition = partitionOf(fetched.at)
  const view = new DataView(set.buffer, set.byteOffset, set.byteLength)
  const transactions = openAbortedTransactions(aborted ?? [])
  let previous = -1
  let at = 0
  while (set.length - at > fieldAt.magic) {
    const where = { topic, partition, offset: int64At(view, at) }
    const length = view.getInt32(at + fieldAt.length)
    if (length < lengthMin) throw corruptBatch(where, `its declared size is ${length} bytes`)
    const end = at + lengthBytes + length
    if (end > set.length) break
    const magic = view.getInt8(at + fieldAt.magic)
    if (magic < 0 || magic > 2) throw refusedBatch(where, `it has the message format ${magic}, which is unknown: use a newer release`)
    const records = magic === 2 ? readBatch(at, end, where) : passOver(magic, end, where)
    if (records.baseOffset <= previous) throw corruptBatch(where, `it starts at or below offset ${previous} of the previous batch`)
    previous = records.lastOffset
    yield records
    at = end
  }
  if (at === 0 && set.length > 0) throw tooLarge()

  function readBatch(at: number, end: number, where: BatchLocation): BatchRecords {
    const header = readBatchHeader(set, view, at, end, where)
    const { baseOffset, lastOffset, timestampMs, appendTime } = header
    const empty = header.count === 0 && header.start === end
    const isMarker = transactions.hold(header, set, view) || header.control
    const leftOut = isMarker || header.lastOffset < next || empty
    const count = leftOut ? 0 : header.count
    const segment = { baseOffset, lastOffset, timestampMs, appendTime, count, isLost: false, isMarker }
    if (leftOut) return { ...segment, bytes: set, owned: false, start: end, end }
    if (header.codec === 0) return { ...segment, bytes: set, owned: false, start: header.start, end }
    try {
      const bytes = decompress(header.codec, set.subarray(header.start, end), where)
      return { ...segment, bytes, owned: true, start: 0, end: bytes.length }
    } catch (error) {
      if (skipBatch !== true || !(error instanceof LargeBatchError)) throw error
      return { ...segment, count: 0, isLost: true, bytes: set, owned: false, start: end, end }
    }
  }

  /** Skips a message in an old format, or several compressed into one, which has the offset of its last. */
  function passOver(magic: number, end: number, where: BatchLocation): BatchRecords {
    const { offset } = where
    checkOffset(offset, where)
    if (offset >= next && skipBatch !== true) throw oldBatch(where, magic)
    const empty = { timestampMs: 0, appendTime: false, count: 0, bytes: set, owned: false, start: end, end }
    return { ...empty, baseOffset: offset, lastOffset: offset, isLost: offset >= next, isMarker: false }
  }

  /** A broker sends the first batch completely, however large. So its size is wrong, or the set was truncated in transit. */
  function tooLarge(): Error {
    const length = set.length >= lengthBytes ? lengthBytes + view.getInt32(fieldAt.length) : undefined
    const fault = length === undefined ? 'its header is incomplete' : `its declared size is ${length} bytes`
    return corruptBatch({ topic, partition, offset: next }, `${fault}, but ${set.length} were fetched`)
  }
}
