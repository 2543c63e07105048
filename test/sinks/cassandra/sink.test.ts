// What is done about rows that a server refuses, without a server.

import { types } from 'cassandra-driver'
import { expect, test } from 'vitest'
import { openDayRegistry } from '../../../sinks/cassandra/day-registry.ts'
import { encode } from '../../../sinks/cassandra/encode.ts'
import { insertStatement } from '../../../sinks/cassandra/schema.ts'
import { InFlight, openRowWriter } from '../../../sinks/cassandra/sink.ts'
import { batchOf, plainBatch } from '../batches.ts'

type Given = Parameters<typeof openRowWriter>
type Answer = (query: string) => readonly Record<string, unknown>[]

const encoding = () => ({
  logNumbers: [1],
  bucketDays: 1,
  dayRegistry: openDayRegistry(),
  insert: (format: string) => insertStatement('k', format),
  unset: types.unset,
  rowBytesMax: 1_000_000,
})
const encoded = () => encode(plainBatch(0, 1), encoding())
const connection = { keyspace: 'k', table: (name: string) => name } as Given[0]

function writerOver(answer: Answer) {
  const execute = async (query: string) => ({ rows: answer(query) })
  return openRowWriter(connection, { execute } as unknown as Given[1], new InFlight(4), new AbortController().signal)
}

const guardrail = () => Object.assign(new Error('Guardrail column_value_size violated: too large'), { name: 'ResponseError', code: 0x2200 })

test('if the server also refuses a valid row no message is rejected: the writer stops', async () => {
  const batch = encoded()
  const writer = writerOver(query => {
    if (query.startsWith('INSERT')) throw guardrail()
    return []
  })
  await expect(writer.insert(batch.tables, batch.rejected)).rejects.toMatchObject({
    errorClass: 'systemic',
    message: expect.stringMatching(/refuses every row.*column_value_size/) as string,
  })
})

test('if the server is down when a valid row is tried no message is rejected either', async () => {
  const batch = encoded()
  const away = Object.assign(new Error('away'), { name: 'OperationTimedOutError' })
  const writer = writerOver(query => {
    throw query.includes('sluice_schema') ? away : guardrail()
  })
  await expect(writer.insert(batch.tables, batch.rejected)).rejects.toBe(away)
})

test('if it accepts the valid row the message is rejected', async () => {
  const batch = encoded()
  const writer = writerOver(query => {
    if (query.startsWith('INSERT') && !query.includes('sluice_schema')) throw guardrail()
    return []
  })
  const refused = await writer.insert(batch.tables, batch.rejected)
  expect(refused).toEqual([expect.objectContaining({ message: 0, rule: 'store-refused' })])
  expect(refused[0]).not.toHaveProperty('partial')
})

test('a refused message of several rows may have some of them in the store', async () => {
  const records = [{ value: 1 }, { value: 2 }]
  const { tables, rejected } = encode(batchOf(0, 1, [{ offset: 0, records }]), encoding())
  const client = {
    batch: () => Promise.reject(guardrail()),
    // Its second row alone is refused.
    execute: (query: string, values: unknown[]) =>
      query.includes('sluice_schema') || (values[4] as Buffer | undefined)?.at(-1) === 0
        ? Promise.resolve({ rows: [] })
        : Promise.reject(guardrail()),
  }
  const writer = openRowWriter(connection, client as unknown as Given[1], new InFlight(4), new AbortController().signal)
  expect(await writer.insert(tables, rejected)).toEqual([expect.objectContaining({ message: 0, record: 1, partial: true })])
})

/** How many requests are under way, of a writer whose requests end as `end` says. */
function writerEnding(inFlight: InFlight, end: (at: number) => Promise<unknown>, signal = new AbortController().signal) {
  const seen = { begun: 0, underWay: 0, most: 0 }
  const execute = async () => {
    seen.most = Math.max(seen.most, ++seen.underWay)
    try {
      return await end(seen.begun++)
    } finally {
      seen.underWay--
    }
  }
  const writer = openRowWriter(connection, { execute } as unknown as Given[1], inFlight, signal)
  return { seen, send: (count: number) => writer.execute(Array.from({ length: count }, () => ({ query: '', params: [] }))) }
}

test('an overload halves the number of requests in flight, whatever fails in an attempt, until the cluster has recovered', async () => {
  const inFlight = new InFlight(64)
  const overload = Object.assign(new Error('overloaded'), { name: 'ResponseError', code: 0x1001 })
  let isOverloaded = true
  const { seen, send } = writerEnding(inFlight, () => (isOverloaded ? Promise.reject(overload) : Promise.resolve()))
  for (const limit of [32, 16, 8, 4, 4]) {
    await expect(send(1000)).rejects.toBe(overload)
    expect(inFlight.limit).toBe(limit)
  }
  isOverloaded = false
  seen.most = 0
  await send(64)
  expect([seen.most, inFlight.limit]).toEqual([4, 8])
  for (let batch = 0; batch < 10; batch++) await send(1000)
  expect([seen.most, inFlight.limit]).toEqual([64, 64])
})

test('after any other error requests in flight are waited for, none is started, and the next attempt has as many', async () => {
  const inFlight = new InFlight(4)
  const fault = new Error('fault')
  const gate = Promise.withResolvers<void>()
  const { seen, send } = writerEnding(inFlight, at => (at === 1 ? Promise.reject(fault) : gate.promise))
  const sending = send(100)
  await expect.poll(() => seen.underWay).toBe(3)
  gate.resolve()
  await expect(sending).rejects.toBe(fault)
  expect(seen).toEqual({ begun: 4, underWay: 0, most: 4 })
  expect(inFlight.limit).toBe(4)
})

test('an abort ends it at once, and no request is started any more', async () => {
  const controller = new AbortController()
  const gate = Promise.withResolvers<void>()
  const { seen, send } = writerEnding(new InFlight(4), () => gate.promise, controller.signal)
  const sending = send(100)
  controller.abort(new Error('revoked'))
  await expect(sending).rejects.toThrow('revoked')
  gate.resolve()
  await expect.poll(() => seen.underWay).toBe(0)
  await expect(send(1)).rejects.toThrow('revoked')
  expect(seen.begun).toBe(4)
})
