// An empty InfluxDB store for the tests of the sink, in two buckets of its own on a server that tests share.

import { randomUUID } from 'node:crypto'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import { Value } from 'typebox/value'
import { openAudit } from '../../../sinks/influxdb/audit.ts'
import { type Connection, fluxFrom, fluxWhere, openConnection } from '../../../sinks/influxdb/connection.ts'
import { openErasure } from '../../../sinks/influxdb/erase.ts'
import { type SinkOptions, sinkOptions } from '../../../sinks/influxdb/options.ts'
import { readLogs, readPoints, type StoredPoint } from '../../../sinks/influxdb/registry.ts'
import { maintain } from '../../../sinks/influxdb/schema.ts'
import { openReplaySink, openSink } from '../../../sinks/influxdb/sink.ts'
import { chooseLog, type LogIdentity } from '../../../sinks/logs.ts'
import type { Sink } from '../../../sinks/sink.ts'
import { flatten } from '../../../transformers/json/flatten.ts'
import { unflatten } from '../../../transformers/json/unflatten.ts'
import type { JsonObject, RecordBatch } from '../../../transformers/record-batch.ts'
import { logsOf, withNumbers } from '../../conformance/sink/fixture.ts'
import type { SinkIdentity, SinkStore, StoredRow } from '../../conformance/sink/index.ts'
import type { InfluxAccess } from '../../servers/influx.ts'
import type { Proxy } from '../../servers/process/proxy.ts'
import { noonUs } from '../batches.ts'
import { throughProxy } from '../through-proxy.ts'

const compress = promisify(gzip)
const nsPerMs = 1_000_000n

export const defaults = Value.Default(sinkOptions, {}) as SinkOptions

export interface InfluxStore extends SinkStore {
  readonly connection: Connection
  readonly options: SinkOptions
  /** Everything in the bucket, with what is not ours. */
  points(): Promise<StoredPoint[]>
  /** Writes lines to the bucket, as anybody may. */
  put(...lines: string[]): Promise<void>
}

/** Another program has written a text where numbers of documents stand, and a number where their texts do. */
const foreign = `typed,channel=other taken="text",taken-too//text=1 ${noonUs}000`
/** Messages whose second document has a field of another type than there. */
const conflicting: SinkStore['poisons'] = {
  "a number where another program's texts are": offset => ({
    offset,
    documents: [
      { format: 'typed', payload: { a: 1 } },
      { format: 'typed', payload: { taken: 1 } },
    ],
  }),
  "a text where another program's numbers are, beside a new key": offset => ({
    offset,
    documents: [
      { format: 'typed', payload: { a: 'text' } },
      { format: 'typed', payload: { [`new-${offset}`]: 'x', 'taken-too': 'text' } },
    ],
  }),
}

/** Messages that are refused before anything is sent. */
export const unkeepable: SinkStore['poisons'] = {
  'a unit that ends in a backslash': offset => ({ offset, records: [{ value: 1 }, { value: 2, unit: 'a\\' }] }),
  'a line end in a unit': offset => ({ offset, records: [{ value: 1 }, { value: 2, unit: 'a\nb' }] }),
  'half a surrogate pair in a text': offset => ({ offset, records: [{ value: 1 }, { stringValue: 'a\ud800' }] }),
  'a NUL in a document': offset => ({
    offset,
    documents: [
      { format: 'engine', payload: { a: 1 } },
      { format: 'engine', payload: { a: 'a\0' } },
    ],
  }),
  'a time of another age': offset => ({ offset, records: [{ value: 1 }, { value: 2, timeUs: 9_300_000_000_000_000 }] }),
}

/**
 * @param proxy through which the sinks come; the tests' own questions do not
 * @param restart restarts a separate server
 */
export async function openStore(
  influx: InfluxAccess,
  {
    proxy,
    options: given = {},
    poisons = conflicting,
    restart,
  }: { proxy?: Proxy; options?: Partial<SinkOptions>; poisons?: SinkStore['poisons']; restart?: () => Promise<void> } = {},
): Promise<InfluxStore> {
  const bucket = `test-${randomUUID().slice(0, 8)}`
  const port = proxy?.port ?? Number(new URL(influx.url).port)
  const url = (port: number): string => `http://127.0.0.1:${port}/?org=${influx.org}&bucket=${bucket}`
  const options: SinkOptions = { ...defaults, url: url(port), token: influx.token, ...given }
  // The tests' own requests are for everything that is stored, and no test is about how long they take.
  const direct = await openConnection({ ...options, url: url(Number(new URL(influx.url).port)), requestTimeoutMs: 120_000 }, 'test')
  const sinks = await openConnection(options, 'test')
  const { orgs } = await direct.ask<{ orgs: { id: string }[] }>('GET', '/api/v2/orgs', { org: influx.org })
  const retentionRules = [{ type: 'expire', everySeconds: 0, shardGroupDurationSeconds: 28 * 86_400 }]
  await direct.ask('POST', '/api/v2/buckets', {}, { orgID: orgs[0]!.id, name: bucket, retentionRules })
  const put = async (...lines: string[]): Promise<void> => direct.write(bucket, await compress(lines.join('\n')))
  if (poisons === conflicting) await put(foreign)
  const points = () => readPoints(direct, fluxFrom(bucket))
  return {
    connection: sinks,
    options,
    async open(identity: SinkIdentity = {}) {
      const logs = await withLogNumbers(direct, logsOf(identity))
      return flattened(await withNumbers(openSink({ connection: sinks, options, logs }), identity))
    },
    replays: {
      audit: openAudit(sinks, options),
      openSink: logNumber => openReplaySink({ connection: sinks, options, logNumber }),
    },
    erasure: openErasure(sinks),
    maintain: (retention, now) => maintain(sinks, { ...options, ...retention }, now),
    rows: async () => rowsOf(await points(), await formatNames(direct)),
    points,
    put,
    poisons,
    readableDuringWrite: true,
    ...(proxy === undefined ? {} : throughProxy(proxy)),
    ...(restart === undefined ? {} : { restart }),
    keptOf: payload => unflatten(flatten(withoutSlashes(payload))),
    offsetsApartMax: 1_000_000,
    formatsMax: options.formatsMax,
    formatsPerChannelMax: options.formatsPerChannelMax,
    async close() {
      await Promise.all([direct.close(), sinks.close()])
    },
  }
}

/** The logs as an operator numbers them: each has its number in the store, or the next one. */
async function withLogNumbers(connection: Connection, logs: readonly LogIdentity[]): Promise<LogIdentity[]> {
  // Before a sink was opened there is no registry.
  const known = [...(await readLogs(connection).catch(() => []))]
  return logs.map(log => {
    try {
      const { number } = chooseLog(known, log)
      known.push({ number, name: log.logName, id: log.logId, writer: log.writer, contentTypes: log.contentTypes, acceptedMs: 0 })
      return { ...log, number }
    } catch {
      // The sink refuses it too.
      return log
    }
  })
}

/** The sink as a writer has it: its transformer gives documents flattened. */
export function flattened(sink: Sink): Sink {
  return {
    ...sink,
    encode: (batch: RecordBatch) => {
      const { documents } = batch
      for (let at = 0; at < documents.length; at++) {
        const { keys, values } = flatten(withoutSlashes(documents.payload[at]!))
        documents.payload[at] = Object.fromEntries(keys.map((key, nth) => [key, values[nth]!]))
      }
      return sink.encode(batch)
    },
  }
}

/** A key with a slash is refused where documents are flattened, before any sink; here it is left out. A batch may come flat already. */
function withoutSlashes(payload: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(payload).filter(([key]) => !key.includes('/')))
}

/** By measurement, the format. */
async function formatNames(connection: Connection): Promise<Map<string, string>> {
  const source = fluxFrom(connection.registryBucket) + fluxWhere({ _measurement: 'formats' })
  // Before a sink was opened there is no such bucket.
  const points = await readPoints(connection, source).catch(() => [])
  return new Map(points.map(({ tags, fields }) => [tags.get('name')!, fields.get('format') as string]))
}

function rowsOf(points: readonly StoredPoint[], formats: ReadonlyMap<string, string>): StoredRow[] {
  const rows = points.filter(({ fields }) => fields.has('/position')).map(point => rowOf(point, formats))
  return rows.sort((one, other) => (one.position === other.position ? one.index - other.index : one.position < other.position ? -1 : 1))
}

function rowOf({ measurement, tags, ns, fields }: StoredPoint, formats: ReadonlyMap<string, string>): StoredRow {
  const index = fields.get('/index') as bigint
  const origin = {
    channel: tags.get('channel') ?? '',
    subtopic: tags.get('subtopic') ?? '',
    publisher: tags.get('publisher') ?? '',
    position: fields.get('/position') as bigint,
    index: Number(index / 1000n),
  }
  if (measurement !== 'messages') {
    const own = [...fields].filter(([field]) => !field.startsWith('/'))
    const keys = own.map(([field]) => field.replace(/\/\/(?:text|bool)$/, ''))
    const payload = unflatten({ keys, values: own.map(([, value]) => value as string) })
    const table = formats.get(measurement) ?? `unregistered ${measurement}`
    return { table, ...origin, protocol: fields.get('/protocol') as string, createdNs: fields.get('/created') as bigint, payload }
  }
  const data = fields.get('dataValue') as string | undefined
  return {
    table: measurement,
    ...origin,
    protocol: fields.get('protocol') as string,
    name: tags.get('name'),
    unit: tags.get('unit'),
    timeUs: Number((ns - (((ns % nsPerMs) + nsPerMs) % nsPerMs)) / 1000n + (index % 1000n)),
    value: fields.get('value') as number | undefined,
    stringValue: fields.get('stringValue') as string | undefined,
    boolValue: fields.get('boolValue') as boolean | undefined,
    dataValue: data === undefined ? undefined : new Uint8Array(Buffer.from(data, 'base64url')),
    sum: fields.get('sum') as number | undefined,
    updateTime: fields.get('updateTime') as number | undefined,
  }
}
