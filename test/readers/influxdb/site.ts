// An InfluxDB store with the sink's schema, in a bucket of its own on a server that tests share, and a reader over it.

import { randomUUID } from 'node:crypto'
import { Value } from 'typebox/value'
import { expect } from 'vitest'
import { type ReaderStoreOptions, readerStoreOptions } from '../../../readers/influxdb/options.ts'
import { openInfluxdbReader } from '../../../readers/influxdb/reader.ts'
import { type Connection, cell, fluxFrom, openConnection } from '../../../sinks/influxdb/connection.ts'
import { type SinkOptions, sinkOptions } from '../../../sinks/influxdb/options.ts'
import { openSink } from '../../../sinks/influxdb/sink.ts'
import { flatten } from '../../../transformers/json/flatten.ts'
import { unflatten } from '../../../transformers/json/unflatten.ts'
import type { JsonObject, RecordBatch } from '../../../transformers/record-batch.ts'
import type { ReaderSite } from '../../conformance/reader/index.ts'
import { withNumbers } from '../../conformance/sink/fixture.ts'
import type { InfluxAccess } from '../../servers/influx.ts'

export interface InfluxSite extends ReaderSite {
  readonly connection: Connection
  readonly options: ReaderStoreOptions
  /** Every query that the reader sent. */
  readonly asked: string[]
  /** How many lines the store has answered so far. */
  lines(): number
  /** How many characters it has answered to one query, at most. */
  charactersMax(): number
}

const signal = new AbortController().signal

export function optionsFor(influx: Pick<InfluxAccess, 'url' | 'org' | 'token'>, bucket: string): ReaderStoreOptions {
  const defaults = Value.Default(readerStoreOptions, {}) as ReaderStoreOptions
  return { ...defaults, url: `${influx.url}/?org=${influx.org}&bucket=${bucket}`, token: influx.token }
}

export async function openSite(influx: InfluxAccess, given: Partial<ReaderStoreOptions> = {}): Promise<InfluxSite> {
  const options = { ...optionsFor(influx, `test-${randomUUID().slice(0, 8)}`), ...given }
  const forSink: SinkOptions = { ...(Value.Default(sinkOptions, {}) as SinkOptions), url: options.url, token: options.token }
  const direct = await openConnection(forSink, 'test')
  const identity = { logName: 'messages', logId: 'log-1', writer: 'timeseries' }
  const sink = await withNumbers(openSink({ connection: direct, options: forSink, logs: [identity] }))
  const connection = await openConnection(options, 'test')
  const asked: string[] = []
  let lines = 0
  let charactersMax = 0
  const recorded: Connection = {
    ...connection,
    async *query(flux, ended) {
      asked.push(flux)
      let characters = 0
      for await (const page of connection.query(flux, ended)) {
        lines += page.length
        for (const { values } of page) for (const text of values) characters += text.length
        charactersMax = Math.max(charactersMax, characters)
        yield page
      }
    },
  }
  const reader = openInfluxdbReader({ connection: recorded, options })
  return {
    connection,
    options,
    asked,
    lines: () => lines,
    charactersMax: () => charactersMax,
    reader,
    async store(batch) {
      flattenDocuments(batch)
      const refuse = async (rejections: unknown): Promise<void> => expect(rejections).toEqual([])
      await sink.write(sink.encode(batch), refuse, signal)
    },
    async names() {
      const { buckets } = await direct.ask<{ buckets: { name: string }[] }>('GET', '/api/v2/buckets', { org: direct.org, limit: '100' })
      const names = buckets.map(bucket => bucket.name)
      const measurements = `${fluxFrom(direct.bucket)} |> keep(columns: ["_measurement"]) |> group() |> distinct(column: "_measurement")`
      for await (const lines of direct.query(measurements)) for (const line of lines) names.push(cell(line, '_value')!)
      return names.sort()
    },
    keptOf,
    flattens: true,
    async close() {
      await reader.close()
      await sink.close()
      await Promise.all([connection.close(), direct.close()])
    },
  }
}

/** What flattening leaves; a document of nothing else is no point. */
function keptOf(payload: JsonObject): JsonObject | undefined {
  const fields = flatten(withFlatKeys(payload))
  return fields.keys.length === 0 ? undefined : unflatten(fields)
}

/** As a writer's transformer gives them. */
function flattenDocuments({ documents }: RecordBatch): void {
  for (let at = 0; at < documents.length; at++) {
    const { keys, values } = flatten(withFlatKeys(documents.payload[at]!))
    const payload: JsonObject = {}
    for (const [nth, key] of keys.entries()) Object.defineProperty(payload, key, { value: values[nth]!, enumerable: true, writable: true })
    documents.payload[at] = payload
  }
}

/** Keys that are empty or hold a slash are refused where documents are flattened, before any sink; here they are left out. */
function withFlatKeys(payload: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(payload).filter(([key]) => key !== '' && !key.includes('/')))
}
