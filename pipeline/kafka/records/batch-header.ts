// Reads and checks the head of a record batch, message format 2 (Kafka protocol guide, "Record Batch").
//
//   record batch    baseOffset int64 · batchLength int32 · partitionLeaderEpoch int32 · magic int8 = 2 · crc uint32
//                   attributes int16 · lastOffsetDelta int32 · baseTimestamp int64 · maxTimestamp int64
//                   producerId int64 · producerEpoch int16 · baseSequence int32 · count int32 · records
//
//   batchLength     counts the bytes after it; crc is the CRC-32C of the bytes after it
//   attributes      bits 0-2 codec · 3 the timestamp is the broker's, maxTimestamp · 4 transactional · 5 control ·
//                   6 baseTimestamp is also the delete horizon: record timestamps are still relative to it
//   records         compressed as a whole if there is a codec; the head never is
//
// Integers are big-endian. lastOffsetDelta does not change when compaction removes records, so a batch may have fewer records than
// offsets, or none.

import { limits } from '../../../sinks/sink.ts'
import { type BatchLocation, corruptBatch, refusedBatch } from './corrupt-batch.ts'
import { crc32c } from './crc32c.ts'

/** The indexes of the fields that are common to all message formats; the older ones have other fields after the magic. */
export const fieldAt = { baseOffset: 0, length: 8, magic: 16 } as const
/** Bytes that `length` does not count. */
export const lengthBytes = 12
/** Minimum value of `length` in the oldest format. */
export const lengthMin = 14

const crcAt = 17
const attributesAt = 21
const recordsAt = 61

const codecBits = 0x07
const appendTimeBit = 0x08
const transactionalBit = 0x10
const controlBit = 0x20

export interface BatchHeader {
  readonly baseOffset: number
  readonly lastOffset: number
  /** 0 for none. */
  readonly codec: number
  /** Timestamp of every record if `appendTime`, else the base of the records' deltas; milliseconds since 1970, -1 for none. */
  readonly timestampMs: number
  readonly appendTime: boolean
  readonly transactional: boolean
  readonly control: boolean
  readonly producerId: number
  readonly count: number
  /** Start and end of the records in the record set. */
  readonly start: number
  readonly end: number
}

/** An int64 as a number: exact below 2^53; larger values are rejected anyway. */
export function int64At(view: DataView, at: number): number {
  return view.getInt32(at) * 0x1_0000_0000 + view.getUint32(at + 4)
}

/**
 * Reads the head of the complete batch at `[at, end)` of the record set, and verifies its checksum.
 *
 * @throws SystemicError if the checksum differs, or a field is invalid
 */
export function readBatchHeader(set: Uint8Array, view: DataView, at: number, end: number, where: BatchLocation): BatchHeader {
  if (end - at < recordsAt) throw corruptBatch(where, `it has ${end - at} bytes, but its header alone takes ${recordsAt}`)
  const expected = view.getUint32(at + crcAt)
  const found = crc32c(set.subarray(at + attributesAt, end))
  if (found !== expected) throw corruptBatch(where, `its checksum is ${hex(found)} instead of ${hex(expected)}`)

  const attributes = view.getInt16(at + attributesAt)
  const appendTime = (attributes & appendTimeBit) !== 0
  const baseOffset = int64At(view, at)
  const lastOffsetDelta = view.getInt32(at + 23)
  const count = view.getInt32(at + 57)
  if (lastOffsetDelta < 0) throw corruptBatch(where, `its last offset is ${lastOffsetDelta} after its first`)
  if (count < 0 || count > lastOffsetDelta + 1) throw corruptBatch(where, `it has ${count} records on ${lastOffsetDelta + 1} offsets`)
  const lastOffset = baseOffset + lastOffsetDelta
  checkOffset(lastOffset, where)
  return {
    baseOffset,
    lastOffset,
    codec: attributes & codecBits,
    timestampMs: int64At(view, at + (appendTime ? 35 : 27)),
    appendTime,
    transactional: (attributes & transactionalBit) !== 0,
    control: (attributes & controlBit) !== 0,
    producerId: int64At(view, at + 43),
    count,
    start: at + recordsAt,
    end,
  }
}

/** @throws SystemicError for an offset that does not fit into a position */
export function checkOffset(offset: number, where: BatchLocation): void {
  if (offset < 0) throw corruptBatch(where, `it has the offset ${offset}`)
  if (offset > limits.offset) throw refusedBatch(where, `offsets above ${limits.offset} do not fit into a stored position: use a new topic`)
}

function hex(crc: number): string {
  return `0x${crc.toString(16).padStart(8, '0')}`
}
