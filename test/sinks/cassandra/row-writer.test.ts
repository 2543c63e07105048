// What is done about rows that a server refuses, or does not let go, without a server.

import { types } from 'cassandra-driver'
import { expect, test } from 'vitest'
import { openDays } from '../../../sinks/cassandra/days.ts'
import { encode } from '../../../sinks/cassandra/encode.ts'
import { Pace } from '../../../sinks/cassandra/in-flight.ts'
import { openRowWriter } from '../../../sinks/cassandra/row-writer.ts'
import { rowStatements } from '../../../sinks/cassandra/statements.ts'
import { plainBatch } from '../batches.ts'

type Given = Parameters<typeof openRowWriter>
type Answer = (query: string, timestampUs: number | undefined) => readonly Record<string, unknown>[]

const encoded = () =>
  encode(plainBatch(0, 1), {
    logNumber: 1,
    bucketDays: 1,
    days: openDays(),
    insert: format => rowStatements('k', format).insert,
    unset: types.unset,
    rowBytesMax: 1_000_000,
  })

function writerOver(answer: Answer) {
  const execute = async (query: string, _values: unknown, { timestamp }: { timestamp?: number }) => ({ rows: answer(query, timestamp) })
  const connection = { keyspace: 'k', table: (name: string) => name } as Given[0]
  return openRowWriter(connection, { execute } as unknown as Given[1], new Pace(4), 1_000, new AbortController().signal)
}

const guardrail = () => Object.assign(new Error('Guardrail column_value_size violated: too large'), { name: 'ResponseError', code: 0x2200 })

test('a server that refuses a harmless row as well refuses no message: the writer stops', async () => {
  const batch = encoded()
  const writer = writerOver(query => {
    if (query.startsWith('INSERT')) throw guardrail()
    return []
  })
  await expect(writer.insert(batch.tables, batch)).rejects.toMatchObject({
    errorClass: 'systemic',
    message: expect.stringMatching(/refuses every row.*column_value_size/) as string,
  })
})

test('a server that is away when it is asked for a harmless row refuses no message either', async () => {
  const batch = encoded()
  const away = Object.assign(new Error('away'), { name: 'OperationTimedOutError' })
  const writer = writerOver(query => {
    throw query.includes('sluice_schema') ? away : guardrail()
  })
  await expect(writer.insert(batch.tables, batch)).rejects.toBe(away)
})

test('one that takes it refuses the message', async () => {
  const batch = encoded()
  const writer = writerOver(query => {
    if (query.startsWith('INSERT') && !query.includes('sluice_schema')) throw guardrail()
    return []
  })
  expect(await writer.insert(batch.tables, batch)).toMatchObject([{ message: 0, rule: 'store-refused' }])
})

test('one that has the row already refuses nothing', async () => {
  const batch = encoded()
  const writer = writerOver(query => {
    if (query.startsWith('INSERT') && !query.includes('sluice_schema')) throw guardrail()
    return query.startsWith('SELECT') ? [{ written_us: 500n }] : []
  })
  expect(await writer.insert(batch.tables, batch)).toEqual([])
})

test('a row that is there after it was deleted is deleted as of later than it was written, until it is gone', async () => {
  const deletedUs: (number | undefined)[] = []
  const writer = writerOver((query, timestampUs) => {
    if (query.startsWith('DELETE')) deletedUs.push(timestampUs)
    // Written anew once, behind the second.
    const written = [5_000n, 7_000n][deletedUs.length - 1]
    return query.startsWith('SELECT') && written !== undefined ? [{ written_us: written }] : []
  })
  expect(await writer.remove(encoded().tables, new Set([0]))).toBe(7_001)
  expect(deletedUs).toEqual([1_000, 5_001, 7_001])
})

test('one that is there for ever is tried again later', async () => {
  const writer = writerOver(query => (query.startsWith('SELECT') ? [{ written_us: null }] : []))
  await expect(writer.remove(encoded().tables, new Set([0]))).rejects.toMatchObject({ errorClass: 'transient' })
})
