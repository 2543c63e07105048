// An empty MongoDB store for the tests of the sink, behind a proxy, with what an operator may have added to it.

import { type Binary, type Db, MongoClient } from 'mongodb'
import { openAudit } from '../../../sinks/mongodb/audit.ts'
import { type Connection, openConnection } from '../../../sinks/mongodb/connection.ts'
import { openErasure } from '../../../sinks/mongodb/erase.ts'
import type { SinkOptions } from '../../../sinks/mongodb/options.ts'
import { maintain } from '../../../sinks/mongodb/schema.ts'
import { openReplaySink, openSink } from '../../../sinks/mongodb/sink.ts'
import type { JsonObject, JsonValue } from '../../../transformers/record-batch.ts'
import { logsOf, withNumbers } from '../../conformance/sink/fixture.ts'
import type { SinkStore, StoredRow } from '../../conformance/sink/index.ts'

/** With time-outs of seconds, so that a test does not wait a minute as an operator would. */
export function optionsOf(url: string, some: Partial<SinkOptions> = {}): SinkOptions {
  return {
    url,
    formatsMax: 1000,
    formatsPerChannelMax: 32,
    writeConcern: 'majority',
    journal: true,
    writesInFlight: 4,
    requestTimeoutMs: 10_000,
    connectTimeoutMs: 10_000,
    retentionDays: 0,
    ...some,
  }
}

export const identity = { logName: 'messages', logId: 'id-1', writer: 'writer-1' }

/** The tests' own client, with int64s as bigints and bytes as Buffers. */
export function openOperator(url: string): MongoClient {
  return new MongoClient(url, { useBigInt64: true, promoteBuffers: true, retryWrites: false, serverSelectionTimeoutMS: 60_000 })
}

/** A record with this update time is refused: a unique index of an operator's has it already. */
const takenUpdateTime = 666.5
const sentinel = 'sentinel'

async function addUniqueIndex(database: Db): Promise<void> {
  await database.createIndex('messages', { updateTime: 1 }, { unique: true, sparse: true })
  await database.collection('messages').insertOne({ _id: sentinel as never, updateTime: takenUpdateTime })
}

export const withTakenUpdateTime = (offset: number) => ({ offset, records: [{ value: 1 }, { value: 2, updateTime: takenUpdateTime }] })

const documents = (culprit: JsonObject) => (offset: number) => ({
  offset,
  documents: [
    { format: 'engine', payload: { a: 1 } },
    { format: 'engine', payload: culprit },
  ],
})

/** What FerretDB refuses in documents and MongoDB takes. */
export const ferretPoisons = {
  'an array in an array': documents({ a: [[1]] }),
  'a key with a dot': documents({ 'a.b': 1 }),
  'a key that begins with a dollar': documents({ d: { $set: 1 } }),
}

/** What both refuse by an index that an operator has made. */
export const commonPoisons = { 'a value that a unique index of an operator has already': withTakenUpdateTime }

export interface StoreParts {
  /** Names the database. Of the sinks, which may come through a proxy. */
  readonly url: string
  /** Of the operator. */
  readonly directUrl: string
  readonly options?: Partial<SinkOptions>
  readonly poisons: SinkStore['poisons']
}

export interface MongoStore extends Omit<SinkStore, 'readableDuringWrite'> {
  readonly database: Db
}

/** Drops the database. */
export async function openStore({ url, directUrl, options: some = {}, poisons }: StoreParts): Promise<MongoStore> {
  const operator = openOperator(directUrl)
  const database = operator.db()
  await database.dropDatabase()
  await addUniqueIndex(database)
  const options = optionsOf(url, some)
  const replays = await openConnection(options, 'test')
  const connections: Connection[] = [replays]
  return {
    database,
    async open(given = {}) {
      const connection = await openConnection(options, 'test')
      connections.push(connection)
      return await withNumbers(openSink({ connection, options, logs: logsOf(given) }), given)
    },
    replays: {
      audit: openAudit(replays, options),
      openSink: logNumber => openReplaySink({ connection: replays, options, logNumber }),
    },
    erasure: openErasure(replays),
    maintain: (retention, now) => maintain(replays, { ...options, ...retention }, now),
    rows: () => rowsOf(database),
    poisons,
    formatsMax: options.formatsMax,
    formatsPerChannelMax: options.formatsPerChannelMax,
    tellsDuplicates: true,
    async close() {
      for (const connection of connections) await connection.close()
      await operator.close()
    },
  }
}

/** Every row, by position and index. */
export async function rowsOf(database: Db): Promise<StoredRow[]> {
  const rows: StoredRow[] = []
  for (const row of await database.collection('messages').find().toArray()) {
    if ((row['_id'] as unknown) === sentinel) continue
    const time = row['time'] as Date
    if (time.getTime() !== Math.floor(Number(row['timeUs']) / 1000)) throw new Error('time and timeUs differ')
    rows.push({
      table: 'messages',
      ...originOf(row),
      name: row['name'] as string,
      unit: row['unit'] as string | undefined,
      timeUs: Number(row['timeUs'] as bigint),
      value: row['value'] as number | undefined,
      stringValue: row['stringValue'] as string | undefined,
      boolValue: row['boolValue'] as boolean | undefined,
      dataValue: row['dataValue'] === undefined ? undefined : new Uint8Array(row['dataValue'] as Uint8Array),
      sum: row['sum'] as number | undefined,
      updateTime: row['updateTime'] as number | undefined,
    })
  }
  for (const { _id: format, collection } of await database.collection('sluice.formats').find().toArray()) {
    for (const row of await database
      .collection(collection as string)
      .find()
      .toArray()) {
      const payload = plainOf(row['payload'] as JsonValue) as JsonObject
      rows.push({ table: String(format), ...originOf(row), createdNs: row['created'] as bigint, payload })
    }
  }
  return rows.sort((one, other) => (one.position === other.position ? one.index - other.index : one.position < other.position ? -1 : 1))
}

function originOf(row: Readonly<Record<string, unknown>>) {
  const id = row['_id'] as Buffer | Binary
  const bytes = Buffer.isBuffer(id) ? id : Buffer.from(id.buffer)
  return {
    channel: row['channel'] as string,
    subtopic: row['subtopic'] as string,
    publisher: row['publisher'] as string,
    protocol: row['protocol'] as string,
    position: bytes.readBigUInt64BE(),
    index: bytes.readUInt32BE(8),
  }
}

/** int64s beyond 2^53 as bigints, others as numbers, as a decoder has them. */
function plainOf(value: JsonValue): JsonValue {
  if (typeof value === 'bigint') return Number.isSafeInteger(Number(value)) ? Number(value) : value
  if (Array.isArray(value)) return value.map((one: JsonValue) => plainOf(one))
  if (value === null || typeof value !== 'object') return value
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, plainOf(one)]))
}
