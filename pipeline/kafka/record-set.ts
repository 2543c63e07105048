// From the bytes of a fetch, one partition's, to runs of messages: batch by batch, checked, decompressed and cut.
//
// What is left out of a record set: the batch that is cut at its end, which is fetched again; batches and messages below the offset
// that was asked for, which a broker sends along because it keeps whole batches; control batches; and, for a reader of committed
// messages, those of aborted transactions. The offsets of all these are gaps inside the range of a run.

import type { RawRun } from '../source.ts'
import { type AbortedTransaction, openAbortedTransactions } from './aborted-transactions.ts'
import { int64At, lengthBytes, lengthMin, place, readBatchHeader } from './batch-header.ts'
import { decompress } from './codecs.ts'
import { type BatchPlace, corruptBatch, refusedBatch } from './corrupt-batch.ts'
import { readOldMessages } from './old-messages.ts'
import { record, stepRecord } from './record-steps.ts'
import { type FoundSegment, runOf } from './run.ts'

/** What was fetched, beside its bytes. */
export interface Fetched {
  readonly topic: string
  readonly partition: number
  /** The first run covers the offsets from here on. */
  readonly from: number
  /** The offset that was asked for, where it lies above `from` because what is between is lost. Messages below it are left out. */
  readonly next?: number
  /** From the fetch response; without it uncommitted messages are read, and those that were aborted. */
  readonly aborted?: readonly AbortedTransaction[]
  /** A run ends with the message that reaches one of these. */
  readonly runBytesMax: number
  readonly runMessagesMax: number
}

/** The records of a batch, before they are cut. */
interface BatchRecords extends FoundSegment {
  readonly count: number
  readonly lastOffset: number
}

/**
 * The runs of a record set, contiguous: the first covers from `from` on, and where the last one ends is the offset to fetch next. There is
 * none where the set is empty. A run may hold no message, and covers offsets all the same. Batches are decompressed as runs are asked
 * for; a run keeps nothing of `set` alive, but the set must not change until the last one was taken.
 *
 * @throws SystemicError where a batch is corrupt, cannot be read, or is larger than the set; after the runs of what lies before it
 */
export function* runsOf(set: Uint8Array, fetched: Fetched): Generator<RawRun, void, undefined> {
  const { topic, partition, runBytesMax, runMessagesMax } = fetched
  const next = fetched.next ?? fetched.from
  let from = fetched.from
  let to = from
  let found: FoundSegment[] = []
  let messages = 0
  let bytes = 0

  try {
    for (const records of recordsOf(set, fetched, next)) {
      const { start, end, count, baseOffset, lastOffset } = records
      let segmentStart = start
      let previous = baseOffset - 1
      let at = start
      for (let left = count; left > 0; left--) {
        if (!stepRecord(records.bytes, at, end)) throw corrupt(baseOffset, `its records are cut after ${count - left} of ${count}`)
        // Copied out: whoever runs while this generator waits may step over other records.
        const recordEnd = record.next
        const offset = baseOffset + record.offsetDelta
        if (offset <= previous || offset > lastOffset)
          throw corrupt(baseOffset, `offset ${offset} follows ${previous}, and ${lastOffset} is its last`)
        previous = offset
        if (offset < next) {
          segmentStart = recordEnd
        } else {
          messages++
          bytes += recordEnd - at
          if (messages >= runMessagesMax || bytes >= runBytesMax) {
            found.push(part(records, segmentStart, recordEnd))
            to = left === 1 ? lastOffset + 1 : offset + 1
            yield runOf(topic, partition, from, to, found, next)
            segmentStart = recordEnd
            from = to
            found = []
            messages = 0
            bytes = 0
          }
        }
        at = recordEnd
      }
      if (at !== end) throw corrupt(baseOffset, `${end - at} bytes are left behind its ${count} records`)
      if (at > segmentStart) found.push(part(records, segmentStart, at))
      to = Math.max(to, lastOffset + 1)
    }
  } catch (error) {
    // What lies before the fault is stored first, so that the position says where it is.
    if (to > from) yield runOf(topic, partition, from, to, found, next)
    throw error
  }
  if (to > from) yield runOf(topic, partition, from, to, found, next)

  function corrupt(offset: number, fault: string): Error {
    return corruptBatch({ topic, partition, offset }, fault)
  }
}

function part({ bytes, owned, baseOffset, timestampMs, appendTime }: FoundSegment, start: number, end: number): FoundSegment {
  return { bytes, owned, start, end, baseOffset, timestampMs, appendTime }
}

/** The records of each batch that lies whole in the set; of one that is left out the last offset alone. */
function* recordsOf(set: Uint8Array, { topic, partition, aborted }: Fetched, next: number): Generator<BatchRecords, void, undefined> {
  const view = new DataView(set.buffer, set.byteOffset, set.byteLength)
  const transactions = openAbortedTransactions(aborted ?? [])
  let previous = -1
  let at = 0
  while (set.length - at > place.magic) {
    const where = { topic, partition, offset: int64At(view, at) }
    const length = view.getInt32(at + place.length)
    if (length < lengthMin) throw corruptBatch(where, `it says that it has ${length} bytes`)
    const end = at + lengthBytes + length
    if (end > set.length) break
    const magic = view.getInt8(at + place.magic)
    if (magic < 0 || magic > 2) throw refusedBatch(where, `it has the message format ${magic}, which is unknown: use a newer version`)
    const records = magic === 2 ? readBatch(at, end, where) : readOld(at, end, where)
    if (records.baseOffset <= previous) throw corruptBatch(where, `it begins at or below offset ${previous}, which the batch before it has`)
    previous = records.lastOffset
    yield records
    at = end
  }
  if (at === 0 && set.length > 0) throw tooLarge()

  function readBatch(at: number, end: number, where: BatchPlace): BatchRecords {
    const header = readBatchHeader(set, view, at, end, where)
    const { baseOffset, lastOffset, timestampMs, appendTime } = header
    const empty = header.count === 0 && header.start === end
    const leftOut = transactions.hold(header, set, view) || header.control || header.lastOffset < next || empty
    const count = leftOut ? 0 : header.count
    const segment = { baseOffset, lastOffset, timestampMs, appendTime, count }
    if (leftOut) return { ...segment, bytes: set, owned: false, start: end, end }
    if (header.codec === 0) return { ...segment, bytes: set, owned: false, start: header.start, end }
    const bytes = decompress(header.codec, set.subarray(header.start, end), where)
    return { ...segment, bytes, owned: true, start: 0, end: bytes.length }
  }

  function readOld(at: number, end: number, where: BatchPlace): BatchRecords {
    const { bytes, count, baseOffset, lastOffset } = readOldMessages(set, at, end, where)
    return { baseOffset, lastOffset, timestampMs: 0, appendTime: false, count, bytes, owned: true, start: 0, end: bytes.length }
  }

  /** A broker sends the first batch whole, however large; so its size is wrong, or the set was cut on its way. */
  function tooLarge(): Error {
    const length = set.length >= lengthBytes ? lengthBytes + view.getInt32(place.length) : undefined
    const fault = length === undefined ? 'not even its head is there' : `it says that it has ${length} bytes`
    return corruptBatch({ topic, partition, offset: next }, `${fault}, and ${set.length} were fetched`)
  }
}
