// What the comparison of peers says of a store: counted against the ledger of a load, message by message.

import { expect, test } from 'vitest'
import { count, lagsOf, stretchOf, waitsOf } from '../../benchmarks/peers/count.ts'
import { secondsAt } from '../../benchmarks/peers/measure.ts'
import { spread, table } from '../../benchmarks/peers/report.ts'
import type { Ledger } from '../../roles/tools/bench/ledger.ts'
import { type LoadPlan, messagesOf } from '../../roles/tools/bench/messages.ts'

const startUs = 1_764_428_400_000_000
const plan: LoadPlan = {
  seed: 1,
  messages: 6,
  devices: 3,
  channels: 1,
  mix: { 'record-json': 1 },
  invalidShare: 0,
  startUs,
  stepUs: 1e6 / 3,
  protocol: 'http',
}
const ledger: Ledger = { plan, acknowledged: Uint8Array.from([1, 1, 1, 1, 1, 0]) }

/** As the store has a message, so long after it was to be sent. */
function row(number: number, waitMs: number, more = 0): string {
  const message = [...messagesOf(plan)][number]!
  const { sent_us: sentUs, temperature } = JSON.parse(Buffer.from(message.payload).toString()) as Record<string, number>
  return [sentUs, temperature! + more, sentUs! + waitMs * 1000].join('\t')
}

test('what is stored twice, not at all, or with another value is counted against the ledger', () => {
  const rows = [row(0, 10), row(1, 10), row(1, 5000), row(2, 10, 0.5), row(4, 10), row(5, 10)]
  const { counts, storedMs } = count(ledger, rows)
  expect(counts).toEqual({ acknowledged: 5, rows: 6, distinct: 4, lost: 2, doubled: 1, other: 1 })
  expect([...storedMs].map(ms => ms > 0)).toEqual([true, true, false, false, true, true])
})

test('rows from before the load are skipped, and a time that no message has is of another', () => {
  const early = [startUs - 1, 20, startUs].join('\t')
  const between = [startUs + 1, 20, startUs].join('\t')
  expect(count(ledger, [early, between, row(0, 1)]).counts).toMatchObject({ rows: 2, distinct: 1, lost: 4, other: 1 })
})

test('a message waits from its intended sending to the commit of its first row, after the warm-up', () => {
  const { storedMs } = count(ledger, [row(0, 9000), row(1, 40), row(1, 20), row(2, 30)])
  expect(waitsOf(ledger, storedMs, 1)).toEqual({ p50: expect.closeTo(30, 2), p99: expect.closeTo(30, 2), p999: expect.closeTo(30, 2) })
})

test('the warm-up is cut off by the share of what is stored', () => {
  const storedMs = Float64Array.from([500, 100, 200, 0, 300, 400])
  expect(stretchOf(storedMs, 0.2)).toEqual({ fromMs: 200, toMs: 500, messages: 3 })
  expect(() => stretchOf(Float64Array.from([100, 100, 100]), 0.2)).toThrow('--messages')
})

test('a lag lasts until no late message that was sent before the next fault is missing', () => {
  const startMs = startUs / 1000
  // Message 2, which is sent at 667 ms, is late beyond the second fault, and message 4 after it. Message 5 is stored last, in time. Message 3 is sent at
  // 1,000 ms, and might have been in time without the fault at 1,050 ms.
  const storedMs = Float64Array.from([1, 340, 1500, 1001, 1600, 1700], ms => startMs + ms)
  const faultsMs = [200, 1200, 3000].map(ms => startMs + ms)
  expect(lagsOf(ledger, storedMs, faultsMs, 100)).toEqual([1.3, 0.4, 0])
  const following = Float64Array.from([1, 340, 900, 1150, 1340, 1700], ms => startMs + ms)
  expect(
    lagsOf(
      ledger,
      following,
      [800, 1050].map(ms => startMs + ms),
      100,
    ),
  ).toEqual([0.1, 0.1])
})

test('CPU between two samples is in proportion', () => {
  const samples = [1000, 1200, 1400].map((atMs, at) => ({ atMs, peer: at * 2, store: 0, broker: 0 }))
  expect([900, 1000, 1100, 1400, 1500].map(atMs => secondsAt(samples, atMs, 'peer'))).toEqual([0, 0, 1, 4, 4])
})

test('a table is aligned whatever its lines have, and a figure of several rounds has its spread', () => {
  expect(spread([3000, 1000, 2000])).toBe('2,000 (1,000–3,000)')
  expect(table([['', 'a'], ['first', '12'], ['2', '1,000'], ['no figure']])).toBe(
    '               a\nfirst         12\n2          1,000\nno figure',
  )
})
