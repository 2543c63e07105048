// One message that PostgreSQL can never store harms no other, wherever it lies in a batch of 5,000.

import { afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import type { Database } from '../../../database/database.ts'
import { openServer } from '../../../database/server.ts'
import { openSink } from '../../../sinks/postgres/sink.ts'
import type { Rejection } from '../../../sinks/sink.ts'
import { logPartition } from '../../../transformers/log-partition.ts'
import { withNumbers } from '../../conformance/sink/fixture.ts'
import { positionsOf } from '../../pipeline/positions.ts'
import { describeWithPostgres } from '../../servers/postgres.ts'
import { batchOf, plain, type TestMessage } from '../batches.ts'
import { emptyDatabase, options } from './store.ts'

type PostgresSink = Awaited<ReturnType<typeof openSink>>
const signal = new AbortController().signal
const batchLength = 5_000
const places = [
  ['the first', [0]],
  ['a middle one', [2_345]],
  ['the last', [4_999]],
  ['the first, the last, and some that lie together', [0, 1, 2, 700, 701, 4_998, 4_999]],
] as const

/** What is undecodable, and clocks out of range, never come to a sink: the pipeline and the transformers keep them out. */
const poisons: Record<string, { good: (offset: number) => TestMessage; bad: (offset: number) => TestMessage; table: string }> = {
  'a NUL in a text': {
    good: plain,
    bad: offset => ({ offset, records: [{ value: 1 }, { stringValue: 'a\0b' }] }),
    table: 'messages',
  },
  'a document with a NUL': {
    good: offset => ({ offset, documents: [{ format: 'engine', payload: { offset } }] }),
    bad: offset => ({ offset, documents: [{ format: 'engine', payload: { a: 'a\0b' } }] }),
    table: 'formats.engine',
  },
  'a document with more digits than its column holds': {
    good: offset => ({ offset, documents: [{ format: 'engine', payload: { offset } }] }),
    bad: offset => ({ offset, documents: [{ format: 'engine', payload: { huge: 10n ** 140_000n } }] }),
    table: 'formats.engine',
  },
}

describeWithPostgres('a batch of 5,000 messages', postgres => {
  let database: Database
  let sink: PostgresSink
  let rejections: Rejection[]
  const keep = async (some: readonly Rejection[]) => void rejections.push(...some)

  beforeAll(async () => {
    database = await openServer({ url: await postgres.createDatabase(), applicationName: 'test', connectionsMax: 3 })
    return () => database.close()
  })
  beforeEach(async () => {
    await emptyDatabase(database)
    sink = await withNumbers(openSink({ database, options, logs: [{ logName: 'messages', logId: 'id-1', writer: 'writer-1' }] }))
    rejections = []
  })
  afterEach(() => sink.close())

  const cases = Object.entries(poisons).flatMap(([what, poison]) => places.map(([where, at]) => ({ what, where, at, ...poison })))
  test.each(cases)('$what, $where: only it is refused', async ({ at, good, bad, table }) => {
    const refused = new Set<number>(at)
    const messages = Array.from({ length: batchLength }, (_, offset) => (refused.has(offset) ? bad(offset) : good(offset)))
    const [count] = await sink.write(sink.encode(batchOf(0, batchLength, messages)), keep, signal)
    expect(count).toMatchObject({ received: batchLength, stored: batchLength - at.length, deadLettered: at.length })
    expect(rejections.map(({ message, rule }) => [message, rule])).toEqual(at.map(message => [message, 'store-refused']))
    const offsets = await database.query<{ missing: number }>(
      `SELECT nth AS missing FROM generate_series(0, ${batchLength - 1}) AS nth
       WHERE NOT EXISTS (SELECT FROM ${table} WHERE position & 4095 = nth & 4095 AND position & 65535 = nth) ORDER BY 1`,
    )
    expect(offsets.map(row => row.missing)).toEqual([...at])
  })

  test('if all messages are refused, in two tables, the batch advances', async () => {
    const { bad } = poisons['a NUL in a text']!
    const { bad: badDocument } = poisons['a document with a NUL']!
    const messages = Array.from({ length: batchLength }, (_, offset) => (offset % 2 === 0 ? bad(offset) : badDocument(offset)))
    const [count] = await sink.write(sink.encode(batchOf(0, batchLength, messages)), keep, signal)
    expect(count).toMatchObject({ received: batchLength, stored: 0, deadLettered: batchLength })
    expect(rejections.map(({ message }) => message)).toEqual(messages.map((_, message) => message))
    expect(await sink.positions?.([logPartition(0, 0)])).toEqual(positionsOf({ 0: batchLength }))
  })
})
