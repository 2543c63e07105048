// Positions and times as decimal digits of 64-bit integers, without a bigint for each row.

import { positionHigh, positionLow } from '../sink.ts'

const billion15 = 1_000_000_000_000_000
/** By log and partition, the digits above the fifteenth of its first position, and the others. */
const bases = new Map<number, { readonly upper: number; readonly lower: number }>()

/** The digits of `log << 56 | partition << 44 | offset`: the last fifteen, and those above them. */
export function positionDigits(log: number, partition: number, offset: number): { readonly upper: number; readonly lower: number } {
  const owner = log * 4096 + partition
  let base = bases.get(owner)
  if (base === undefined) {
    const first = BigInt(owner) << 44n
    base = { upper: Number(first / BigInt(billion15)), lower: Number(first % BigInt(billion15)) }
    bases.set(owner, base)
  }
  // An offset has 44 bits: the sum is a safe integer.
  const lower = base.lower + offset
  const carry = Math.floor(lower / billion15)
  return { upper: base.upper + carry, lower: lower - carry * billion15 }
}

/** `log << 56 | partition << 44 | offset` as an integer, where few are needed. */
export function packedPosition(log: number, partition: number, offset: number): bigint {
  return (BigInt(positionHigh(log, partition, offset)) << 32n) | BigInt(positionLow(offset))
}

/**
 * The nanoseconds behind the microsecond of a row, 0 to 999: they keep messages of one series and one microsecond apart. Those of 1,000 offsets of a
 * partition that follow each other differ; of the first log's partition 0 they are the offset mod 1000. Other logs and partitions begin
 * elsewhere, so that equal offsets differ too: a topic that is made anew begins at 0 once more.
 */
export function restNsOf(log: number, partition: number, offset: number): number {
  return (offset + partition * 61 + (log - 1) * 389) % 1000
}

/** InfluxDB's times reach from -9223372036854775806 to 9223372036854775806 ns, and doubles hold whole microseconds up to a little below. */
const timeUsMax = Number.MAX_SAFE_INTEGER

export function timeIsKept(timeUs: number): boolean {
  return timeUs >= -timeUsMax && timeUs <= timeUsMax
}

/** Nanoseconds: us × 1000 + rest, where the rest is below 1000. */
export function timeText(timeUs: number, restNs: number): string {
  if (timeUs > 0) return restNs < 10 ? `${timeUs}00${restNs}` : restNs < 100 ? `${timeUs}0${restNs}` : `${timeUs}${restNs}`
  if (timeUs === 0) return String(restNs)
  // Towards zero: -1 µs and 5 ns are -995 ns.
  const whole = restNs === 0 ? -timeUs : -timeUs - 1
  const rest = restNs === 0 ? 0 : 1000 - restNs
  return whole === 0 ? `-${rest}` : `-${whole}${String(rest).padStart(3, '0')}`
}
