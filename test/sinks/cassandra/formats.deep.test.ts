// Hundreds of formats, each a table. A thousand, which are the most by default, take a busy machine ten minutes.

import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Connection, openConnection } from '../../../sinks/cassandra/connection.ts'
import type { SinkOptions } from '../../../sinks/cassandra/options.ts'
import { readFormats } from '../../../sinks/cassandra/registry.ts'
import { openSink } from '../../../sinks/cassandra/sink.ts'
import { withNumbers } from '../../conformance/sink/fixture.ts'
import { describeWithOwnCassandra } from '../../servers/cassandra.ts'
import { batchOf, type TestMessage } from '../batches.ts'
import { identity, optionsFor } from './store.ts'

const never = new AbortController().signal
const formatsMax = Number(process.env['SLUICE_TEST_FORMATS'] ?? 100)
const batchFormats = 50

describeWithOwnCassandra('many formats on Cassandra', cassandra => {
  let options: SinkOptions
  let connection: Connection

  beforeAll(async () => {
    options = optionsFor(cassandra.contactPoint, { formatsMax, requestTimeoutMs: 60_000 })
    connection = await openConnection(options, 'formats')
  })
  afterAll(() => connection.close())

  test('are all stored, also by a sink that finds them registered, and one more is refused', { timeout: 1_200_000 }, async () => {
    const sink = await withNumbers(openSink({ connection, options, logs: [identity] }))
    const message = (nth: number): TestMessage => ({
      offset: nth,
      channel: `channel-${Math.floor(nth / options.formatsPerChannelMax)}`,
      documents: [{ format: `format-${nth}`, payload: { nth } }],
    })
    const batch = (from: number, to: number) =>
      batchOf(
        from,
        to,
        Array.from({ length: to - from }, (_, at) => message(from + at)),
      )
    const startedMs = performance.now()
    for (let from = 0; from < formatsMax; from += batchFormats) {
      expect(await sink.write(sink.encode(batch(from, from + batchFormats)), async () => undefined, never)).toMatchObject([
        { stored: batchFormats },
      ])
      if (process.env['SLUICE_TEST_PROGRESS'] !== undefined)
        console.log(from + batchFormats, Math.round(performance.now() - startedMs), 'ms')
    }
    const other = await withNumbers(openSink({ connection, options, logs: [identity] }))
    expect(await other.write(other.encode(batch(0, formatsMax)), async () => undefined, never)).toMatchObject([{ stored: formatsMax }])
    const rules: string[] = []
    const keep = async (some: readonly { rule: string }[]) => void rules.push(...some.map(({ rule }) => rule))
    await other.write(other.encode(batch(formatsMax, formatsMax + 1)), keep, never)
    expect(rules).toEqual(['format-limit'])
    expect(await readFormats(connection)).toHaveLength(formatsMax)
    // Also in pages: there may be more than a node gives at once.
    const select = `SELECT format FROM ${connection.table('sluice_formats')}`
    expect(await connection.query(select, [], { fetchSize: 7 })).toHaveLength(formatsMax)
  })
})
