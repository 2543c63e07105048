// Messages of the formats before record batches, magic 0 and 1 (Kafka protocol guide, "Message sets"), made into records of today's form.
//
//   entry        offset int64 · size int32 · crc uint32 · magic int8 · attributes int8 · [timestamp int64, magic 1] · key · value
//   key, value   length int32, -1 for null · bytes
//   attributes   bits 0-2 codec · 3 the timestamp is the broker's
//
// crc is the CRC-32 of zlib over what follows it. Where there is a codec, the value is a message set, compressed, and the entry has the
// offset of its last message. With magic 1 the offsets inside count from 0, and the broker's timestamp is the outer one; with magic 0 they
// are absolute, and there are no timestamps. Old logs are read once, so this is plain and not fast.

import { crc32 } from 'node:zlib'
import { checkOffset, int64At, lengthBytes, lengthMin, place } from './batch-header.ts'
import { decompress } from './codecs.ts'
import { type BatchPlace, corruptBatch } from './corrupt-batch.ts'
import { withHeaderChecksum } from './lz4-frame.ts'
import { writeSigned } from './varint.ts'

/** Records of today's form: their timestamps count from 0, and they have no headers. */
export interface OldMessages {
  readonly bytes: Uint8Array
  readonly count: number
  readonly baseOffset: number
  readonly lastOffset: number
}

interface Entry {
  readonly offset: number
  readonly magic: number
  readonly codec: number
  readonly appendTime: boolean
  /** -1 where there is none. */
  readonly timestampMs: number
  readonly key: Uint8Array | null
  readonly value: Uint8Array | null
}

const lz4 = 3
/** What a record takes beside its key and value: a length, attributes, three varints of 10, 5 and 5, and no headers. */
const recordBytesMax = 5 + 1 + 10 + 5 + 5 + 5 + 1

/**
 * Reads the entry that lies whole at `[at, end)`: one message, or those inside it.
 *
 * @throws SystemicError where a checksum is another, or a field cannot be
 */
export function readOldMessages(set: Uint8Array, at: number, end: number, where: BatchPlace): OldMessages {
  const outer = readEntry(set, at, end, where)
  if (outer.codec === 0) return recordsOf([outer], outer.offset)
  if (outer.value === null) throw corruptBatch(where, 'it is compressed and has no value')
  const mended = outer.magic === 0 && outer.codec === lz4 ? withHeaderChecksum(outer.value) : outer.value
  const inner = readEntries(decompress(outer.codec, mended, where), where)
  const last = inner.at(-1)
  if (last === undefined) return recordsOf([], outer.offset)
  // Nothing, where they are absolute.
  const moveBy = outer.offset - last.offset
  let previous = -1
  const entries = inner.map(entry => {
    if (entry.codec !== 0 || entry.magic !== outer.magic)
      throw corruptBatch(where, 'a message inside is compressed again, or of another format')
    const offset = entry.offset + moveBy
    if (offset <= previous || offset > outer.offset) throw corruptBatch(where, `a message inside has the offset ${offset}`)
    previous = offset
    return { ...entry, offset, timestampMs: outer.appendTime ? outer.timestampMs : entry.timestampMs }
  })
  return recordsOf(entries, outer.offset)
}

function readEntries(bytes: Uint8Array, where: BatchPlace): Entry[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const entries: Entry[] = []
  let at = 0
  while (at < bytes.length) {
    const size = at + lengthBytes <= bytes.length ? view.getInt32(at + place.length) : -1
    if (size < lengthMin || size > bytes.length - at - lengthBytes) throw corruptBatch(where, `the messages inside are cut at byte ${at}`)
    const end = at + lengthBytes + size
    entries.push(readEntry(bytes, at, end, where))
    at = end
  }
  return entries
}

function readEntry(bytes: Uint8Array, start: number, end: number, where: BatchPlace): Entry {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const expected = view.getUint32(start + 12)
  if (crc32(bytes.subarray(start + place.magic, end)) !== expected)
    throw corruptBatch(where, 'its checksum is not the one that was written')
  const offset = int64At(view, start)
  checkOffset(offset, where)
  const magic = view.getInt8(start + place.magic)
  const attributes = view.getInt8(start + 17)
  let at = start + 18
  if (magic === 1) at += 8
  const key = field()
  const value = field()
  if (at !== end) throw corruptBatch(where, 'its key and value do not fill its length')
  const timestampMs = magic === 1 ? int64At(view, start + 18) : -1
  return { offset, magic, codec: attributes & 0x07, appendTime: (attributes & 0x08) !== 0, timestampMs, key, value }

  function field(): Uint8Array | null {
    const length = at + 4 <= end ? view.getInt32(at) : end
    at += 4
    if (length < 0) return null
    if (length > end - at) throw corruptBatch(where, 'its key or value does not fit into its length')
    at += length
    return bytes.subarray(at - length, at)
  }
}

function recordsOf(entries: readonly Entry[], lastOffset: number): OldMessages {
  const baseOffset = entries[0]?.offset ?? lastOffset
  let bytesMax = 0
  for (const { key, value } of entries) bytesMax += recordBytesMax + (key?.length ?? 0) + (value?.length ?? 0)
  const bytes = new Uint8Array(bytesMax)
  const head = new Uint8Array(recordBytesMax)
  let at = 0
  for (const { offset, timestampMs, key, value } of entries) {
    let headEnd = writeSigned(head, 1, timestampMs)
    headEnd = writeSigned(head, headEnd, offset - baseOffset)
    headEnd = writeSigned(head, headEnd, key?.length ?? -1)
    const valueHead = new Uint8Array(5)
    const valueHeadEnd = writeSigned(valueHead, 0, value?.length ?? -1)
    at = writeSigned(bytes, at, headEnd + (key?.length ?? 0) + valueHeadEnd + (value?.length ?? 0) + 1)
    for (const part of [head.subarray(0, headEnd), key, valueHead.subarray(0, valueHeadEnd), value]) {
      if (part === null) continue
      bytes.set(part, at)
      at += part.length
    }
    at = writeSigned(bytes, at, 0)
  }
  return { bytes: bytes.slice(0, at), count: entries.length, baseOffset, lastOffset }
}
