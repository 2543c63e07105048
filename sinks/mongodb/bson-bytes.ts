// A growing buffer of documents in BSON, one behind the other. From the specification of BSON (bsonspec.org, version 1.1):
//
//   document = length int32 (of all of it), element*, 00
//   element  = type byte, name, 00, value; integers and floats little-endian
//   value    = 01 float64 | 02 length int32 (with the 00), UTF-8, 00 | 03 document | 04 document whose names are 0, 1, 2 …
//              | 05 length int32, subtype byte, bytes | 08 byte | 09 milliseconds int64 | 0A nothing | 10 int32 | 12 int64

export const elementType = {
  double: 0x01,
  string: 0x02,
  document: 0x03,
  array: 0x04,
  binary: 0x05,
  boolean: 0x08,
  date: 0x09,
  null: 0x0a,
  int32: 0x10,
  int64: 0x12,
} as const

/** Type and name of an element that many documents have: `head(elementType.string, 'channel')`. */
export function head(type: number, name: string): Uint8Array {
  return Uint8Array.from([type, ...Buffer.from(name), 0])
}

/** The caller reserves room, then writes: no method but `reserve` and `finish` looks at the end of the buffer. */
export class BsonBytes {
  bytes: Buffer
  view: DataView
  /** Where the next byte goes. */
  at = 0

  constructor(capacity: number) {
    this.bytes = Buffer.allocUnsafeSlow(capacity)
    this.view = new DataView(this.bytes.buffer)
  }

  /** Makes room for so many more bytes. */
  reserve(length: number): void {
    const needed = this.at + length
    if (needed <= this.bytes.length) return
    const larger = Buffer.allocUnsafeSlow(Math.max(needed, this.bytes.length * 2))
    larger.set(this.bytes.subarray(0, this.at))
    this.bytes = larger
    this.view = new DataView(larger.buffer)
  }

  /** Begins a document, also one inside another: 4 bytes. `endDocument` is given what this returns. */
  beginDocument(): number {
    const start = this.at
    this.at += 4
    return start
  }

  /** 1 byte. */
  endDocument(start: number): void {
    this.bytes[this.at++] = 0
    this.view.setInt32(start, this.at - start, true)
  }

  /** Type and name of the next element. */
  head(head: Uint8Array): void {
    const { bytes } = this
    let { at } = this
    for (let nth = 0; nth < head.length; nth++) bytes[at++] = head[nth]!
    this.at = at
  }

  /** Type and name of the next element; the name without a NUL: at most 2 + 3 × name.length bytes. */
  headOf(type: number, name: string): void {
    this.bytes[this.at++] = type
    this.at += this.bytes.write(name, this.at)
    this.bytes[this.at++] = 0
  }

  /** At most 5 + 3 × value.length bytes. */
  string(value: string): void {
    const start = this.at + 4
    const written = this.bytes.write(value, start)
    this.view.setInt32(this.at, written + 1, true)
    this.bytes[start + written] = 0
    this.at = start + written + 1
  }

  /** 8 bytes. */
  double(value: number): void {
    this.view.setFloat64(this.at, value, true)
    this.at += 8
  }

  /** 4 bytes. */
  int32(value: number): void {
    this.view.setInt32(this.at, value, true)
    this.at += 4
  }

  /** An integer by its halves, the upper one signed: 8 bytes. A date is one too. */
  int64(high: number, low: number): void {
    this.view.setInt32(this.at, low, true)
    this.view.setInt32(this.at + 4, high, true)
    this.at += 8
  }

  /** A whole number within ±2^53 as an int64: 8 bytes. */
  integer(value: number): void {
    this.int64(Math.floor(value / 0x1_0000_0000), value >>> 0)
  }

  /** 1 byte. */
  boolean(value: number): void {
    this.bytes[this.at++] = value
  }

  /** 5 + value.length bytes. */
  binary(value: Uint8Array): void {
    this.view.setInt32(this.at, value.length, true)
    this.bytes[this.at + 4] = 0
    this.bytes.set(value, this.at + 5)
    this.at += 5 + value.length
  }

  /** Bytes written before, once more. */
  again(start: number, end: number): void {
    this.bytes.copyWithin(this.at, start, end)
    this.at += end - start
  }

  /** Everything written. */
  finish(): Uint8Array {
    return this.bytes.subarray(0, this.at)
  }
}
