// The flexible encoding of Kafka's newer requests (KIP-482): lengths as unsigned varints plus one, and tagged fields behind each struct.
//
// kafkajs knows none of the versions that have it, and `@platformatic/kafka` decodes the messages of a fetch, which is done elsewhere here
// (record-set.ts); so requests in it are written here and travel over the connection of either client.

import { int64At } from '../batch-header.ts'

/** Appends to itself; `bytes` is what was written. */
export interface WireWriter {
  int8(value: number): WireWriter
  int16(value: number): WireWriter
  int32(value: number): WireWriter
  int64(value: number): WireWriter
  /** 16 bytes out of 32 hexadecimal digits, with or without dashes. */
  uuid(value: string): WireWriter
  string(value: string): WireWriter
  /** The length of an array; its elements follow. */
  array(length: number): WireWriter
  /** No tagged fields. */
  tags(): WireWriter
  bytes(): Buffer
}

export function openWireWriter(): WireWriter {
  const parts: Buffer[] = []
  function part(length: number, write: (part: Buffer) => unknown): WireWriter {
    const bytes = Buffer.alloc(length)
    write(bytes)
    parts.push(bytes)
    return writer
  }
  function length(value: number): WireWriter {
    const digits: number[] = []
    let rest = value
    for (; rest > 0x7f; rest >>>= 7) digits.push(0x80 | (rest & 0x7f))
    digits.push(rest)
    parts.push(Buffer.from(digits))
    return writer
  }
  const writer: WireWriter = {
    int8: value => part(1, bytes => bytes.writeInt8(value)),
    int16: value => part(2, bytes => bytes.writeInt16BE(value)),
    int32: value => part(4, bytes => bytes.writeInt32BE(value)),
    int64: value => part(8, bytes => bytes.writeBigInt64BE(BigInt(value))),
    uuid: value => {
      parts.push(Buffer.from(value.replaceAll('-', ''), 'hex'))
      return writer
    },
    string: value => {
      const bytes = Buffer.from(value)
      length(bytes.length + 1)
      parts.push(bytes)
      return writer
    },
    array: count => length(count + 1),
    tags: () => length(0),
    bytes: () => Buffer.concat(parts),
  }
  return writer
}

/** Steps through an answer. @throws RangeError where it is cut */
export interface WireReader {
  int8(): number
  int16(): number
  int32(): number
  /** Exact within 2^53. */
  int64(): number
  /** As 8-4-4-4-12 hexadecimal digits. */
  uuid(): string
  /** null where there is none. */
  string(): string | null
  /** A view, not a copy; null where there is none. */
  bytes(): Buffer | null
  /** Its elements, each read by `element`; none where there is no array. */
  array<Element>(element: () => Element): Element[]
  /** Steps over tagged fields: none of them is known here. */
  tags(): void
}

export function openWireReader(answer: Buffer): WireReader {
  const view = new DataView(answer.buffer, answer.byteOffset, answer.byteLength)
  let at = 0
  function step(length: number): number {
    const from = at
    at += length
    if (at > answer.length) throw new RangeError(`the answer has ${answer.length} bytes, and ${at} were to be read`)
    return from
  }
  function unsigned(): number {
    let value = 0
    for (let shift = 0; ; shift += 7) {
      const byte = view.getUint8(step(1))
      value += (byte & 0x7f) * 2 ** shift
      if (byte < 0x80) return value
    }
  }
  function bytes(): Buffer | null {
    const length = unsigned() - 1
    if (length < 0) return null
    const from = step(length)
    return answer.subarray(from, at)
  }
  return {
    int8: () => view.getInt8(step(1)),
    int16: () => view.getInt16(step(2)),
    int32: () => view.getInt32(step(4)),
    int64: () => int64At(view, step(8)),
    uuid: () => {
      const from = step(16)
      const digits = answer.toString('hex', from, at)
      return `${digits.slice(0, 8)}-${digits.slice(8, 12)}-${digits.slice(12, 16)}-${digits.slice(16, 20)}-${digits.slice(20)}`
    },
    string: () => bytes()?.toString() ?? null,
    bytes,
    array: element => {
      const length = unsigned() - 1
      const elements: ReturnType<typeof element>[] = []
      for (let left = length; left > 0; left--) elements.push(element())
      return elements
    },
    tags: () => {
      for (let left = unsigned(); left > 0; left--) {
        unsigned()
        step(unsigned())
      }
    },
  }
}
