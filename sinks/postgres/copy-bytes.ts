// A growing buffer of rows in the binary format of COPY. From PostgreSQL's manual, COPY, "Binary Format":
//
//   file   = "PGCOPY\n" FF "\r\n" 00, flags int32 = 0, extension length int32 = 0, tuple*, int16 = -1
//   tuple  = number of fields int16, field*
//   field  = length int32 (-1 is NULL), that many bytes; integers and floats big-endian

const signature = Uint8Array.of(0x50, 0x47, 0x43, 0x4f, 0x50, 0x59, 0x0a, 0xff, 0x0d, 0x0a, 0x00, 0, 0, 0, 0, 0, 0, 0, 0)
const headerLength = signature.length
export const trailerLength = 2

/** The caller reserves room, then writes: no method but `reserve`, `json` and `finish` looks at the end of the buffer. */
export class CopyBytes {
  bytes: Buffer
  view: DataView
  /** Where the next byte goes. */
  at: number

  constructor(capacity: number) {
    this.bytes = Buffer.allocUnsafeSlow(Math.max(capacity, headerLength + trailerLength))
    this.view = new DataView(this.bytes.buffer)
    this.bytes.set(signature)
    this.at = headerLength
  }

  /** Makes room for so many more bytes. */
  reserve(length: number): void {
    const needed = this.at + length + trailerLength
    if (needed <= this.bytes.length) return
    const larger = Buffer.allocUnsafeSlow(Math.max(needed, this.bytes.length * 2))
    larger.set(this.bytes.subarray(0, this.at))
    this.bytes = larger
    this.view = new DataView(larger.buffer)
  }

  /** A text field: at most 4 + 3 × value.length bytes. */
  text(value: string): void {
    const start = this.at + 4
    const written = this.bytes.write(value, start)
    this.view.setInt32(this.at, written)
    this.at = start + written
  }

  /** A jsonb field: the version of the format, 1, before its text. */
  json(text: string): void {
    this.reserve(5 + 3 * text.length)
    const start = this.at + 5
    const written = this.bytes.write(text, start)
    this.view.setInt32(this.at, written + 1)
    this.bytes[start - 1] = 1
    this.at = start + written
  }

  /** A bytea field: 4 + value.length bytes. */
  data(value: Uint8Array): void {
    this.view.setInt32(this.at, value.length)
    this.bytes.set(value, this.at + 4)
    this.at += 4 + value.length
  }

  /** A float8 field: 12 bytes. */
  float64(value: number): void {
    this.view.setInt32(this.at, 8)
    this.view.setFloat64(this.at + 4, value)
    this.at += 12
  }

  /** An int8 field by its halves, the upper one signed or not: 12 bytes. */
  int64(high: number, low: number): void {
    this.view.setInt32(this.at, 8)
    this.view.setInt32(this.at + 4, high)
    this.view.setInt32(this.at + 8, low)
    this.at += 12
  }

  /** An int4 field: 8 bytes. */
  int32(value: number): void {
    this.view.setInt32(this.at, 4)
    this.view.setInt32(this.at + 4, value)
    this.at += 8
  }

  /** A boolean field: 5 bytes. */
  boolean(value: number): void {
    this.view.setInt32(this.at, 1)
    this.bytes[this.at + 4] = value
    this.at += 5
  }

  /** A field without a value: 4 bytes. */
  none(): void {
    this.view.setInt32(this.at, -1)
    this.at += 4
  }

  /** The number of fields of the tuple that begins: 2 bytes. */
  fields(count: number): void {
    this.view.setInt16(this.at, count)
    this.at += 2
  }

  /** Bytes written before, once more. */
  again(start: number, end: number): void {
    this.bytes.copyWithin(this.at, start, end)
    this.at += end - start
  }

  /** The whole, with its trailer. */
  finish(): Uint8Array {
    this.view.setInt16(this.at, -1)
    return this.bytes.subarray(0, this.at + trailerLength)
  }
}

/** A file of its own with only these stretches `[start, end)` of a finished one's tuples. */
export function excerpt(file: Uint8Array, stretches: readonly (readonly [start: number, end: number])[]): Uint8Array {
  let length = 0
  for (const [start, end] of stretches) length += end - start
  const part = new Uint8Array(headerLength + length + trailerLength)
  part.set(signature)
  let at = headerLength
  for (const [start, end] of stretches) {
    part.set(file.subarray(start, end), at)
    at += end - start
  }
  part.fill(0xff, at)
  return part
}
