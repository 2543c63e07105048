// Channel, publishers and times of the fixture's rows.

export const channel = '1f0c6b5e-7c2e-4a36-9a51-0c3c6c6f2a10'
export const neighbour = '1f0c6b5e-7c2e-4a36-9a51-0c3c6c6f2a11'
export const publishers = ['7d5a2c1e-0000-4000-8000-000000000001', '7d5a2c1e-0000-4000-8000-000000000002'] as const

/** 2026-10-31T23:59:59 UTC: the rows are on both sides of the end of a day and a month. */
export const startUs = 1_793_491_199_000_000
export const dayUs = 86_400_000_000

/** Packed as in sinks/sink.ts; the fixture is in the first log of its store. */
export function packed(partition: number, offset: number): bigint {
  return (1n << 56n) | (BigInt(partition) << 44n) | BigInt(offset)
}
