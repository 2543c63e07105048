// Dates of CQL: an unsigned 32-bit number of days with 1970-01-01 in the middle.

const origin = 0x8000_0000

/** @param day since 1970-01-01 */
export function dateBytes(day: number): Buffer {
  const bytes = Buffer.allocUnsafe(4)
  bytes.writeUInt32BE(day + origin)
  return bytes
}

/** Days since 1970-01-01 of a date as the driver reads it. */
export function dayOfDate(date: { toBuffer(): Buffer }): number {
  return date.toBuffer().readUInt32BE() - origin
}
