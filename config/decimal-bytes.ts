// Writes numbers as decimal text directly into bytes: creating a string for each number of each row costs more than writing its digits.
//
// Each function writes at `at`, where the caller has reserved enough bytes, and returns the index of the next byte.

const minus = 0x2d
const point = 0x2e
const zero = 0x30
const billion8 = 100_000_000

/** The longest text of a double, in bytes: -1.2345678901234567e-308. */
export const doubleBytesMax = 25

/** A whole number from 0 to 2^53: at most 16 bytes. */
export function writeInteger(bytes: Buffer, at: number, value: number): number {
  if (value >= billion8) {
    const upper = Math.floor(value / billion8)
    return writeDigits(bytes, writeInteger(bytes, at, upper), value - upper * billion8, 8)
  }
  let count = 1
  for (let limit = 10; value >= limit; limit *= 10) count++
  return writeDigits(bytes, at, value, count)
}

/** Padded with leading zeros to `count` digits. The value has at most `count` digits, and `count` is at most 8. */
export function writeDigits(bytes: Buffer, at: number, value: number, count: number): number {
  let rest = value | 0
  for (let nth = at + count - 1; nth >= at; nth--) {
    const tenth = (rest / 10) | 0
    bytes[nth] = zero + rest - tenth * 10
    rest = tenth
  }
  return at + count
}

/** Writes a fraction as a point and digits without trailing zeros; writes nothing if it is 0. `value` has at most `count` digits. */
export function writeFraction(bytes: Buffer, at: number, value: number, count: number): number {
  if (value === 0) return at
  bytes[at] = point
  let end = writeDigits(bytes, at + 1, value, count)
  while (bytes[end - 1] === zero) end--
  return end
}

/** A finite double as JavaScript prints it: at most `doubleBytesMax` bytes. */
export function writeDouble(bytes: Buffer, at: number, value: number): number {
  // Most measured values have three decimals or fewer. If dividing returns the same double, these digits are its shortest text: no two decimals of so
  // few digits are the same double.
  const thousandths = Math.round(value * 1000)
  if (thousandths / 1000 !== value || thousandths >= billion8 || thousandths <= -billion8) {
    return at + bytes.write(String(value), at, 'latin1')
  }
  const magnitude = Math.abs(thousandths)
  const whole = Math.floor(magnitude / 1000)
  let next = at
  if (thousandths < 0) bytes[next++] = minus
  return writeFraction(bytes, writeInteger(bytes, next, whole), magnitude - whole * 1000, 3)
}
