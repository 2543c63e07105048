// The raw loop for comparison with the InfluxDB sink: POSTs of line protocol that is encoded and compressed before the measurement.

import { gzipSync } from 'node:zlib'
import { Value } from 'typebox/value'
import { Pool } from 'undici'
import { eachAtOnce } from '../../config/each-at-once.ts'
import { openAudit } from '../../sinks/influxdb/audit.ts'
import { cell, fluxFrom, openConnection } from '../../sinks/influxdb/connection.ts'
import { encode } from '../../sinks/influxdb/encode.ts'
import { type SinkOptions, sinkOptions } from '../../sinks/influxdb/options.ts'
import { openSink, splitBodies } from '../../sinks/influxdb/sink.ts'
import { startInflux } from '../../test/servers/influx.ts'
import type { RecordBatch } from '../../transformers/record-batch.ts'
import type { RawStore } from '../stores/raw-store.ts'

const inFlight = 4

/** All batches cover the same ten seconds, so rows of one would overwrite those of another: moves each batch once, to ten seconds of its own. */
function spread(batches: readonly RecordBatch[], spreadAlready: WeakSet<RecordBatch>): void {
  for (const [nth, batch] of batches.entries()) {
    if (spreadAlready.has(batch)) continue
    spreadAlready.add(batch)
    for (let at = 0; at < batch.records.length; at++) batch.records.timeUs[at]! -= (batches.length - 1 - nth) * 10_000_000
  }
}

/** @param given options of the sink that differ from the defaults; the loop sends bodies of the sink's size */
export async function openRaw(given: Partial<SinkOptions> = {}): Promise<RawStore> {
  const influx = await startInflux()
  const { org, token } = influx
  const bucket = 'bench'
  const url = `${influx.url}/?org=${org}&bucket=${bucket}`
  const options: SinkOptions = { ...(Value.Default(sinkOptions, {}) as SinkOptions), url, token, ...given }
  const connection = await openConnection(options, 'benchmark')
  const pool = new Pool(influx.url, { connections: inFlight, pipelining: 1 })
  const logs = [{ logName: 'messages', logId: 'benchmark', writer: 'benchmark', acceptNewLog: 'benchmark' }]
  const send = async (body: Uint8Array): Promise<void> => {
    const { statusCode, body: answer } = await pool.request({
      method: 'POST',
      path: `/api/v2/write?org=${org}&bucket=${bucket}&precision=ns`,
      headers: { authorization: `Token ${token}`, 'content-encoding': 'gzip' },
      body,
    })
    const text = await answer.text()
    if (statusCode !== 204) throw new Error(`${statusCode} ${text}`)
  }

  async function empty(): Promise<void> {
    const headers = { authorization: `Token ${token}` }
    const { buckets } = await connection.ask<{ buckets: { id: string }[] }>('GET', '/api/v2/buckets', { org, name: bucket })
    await fetch(`${influx.url}/api/v2/buckets/${buckets[0]!.id}`, { method: 'DELETE', headers })
    await make()
  }

  async function make(): Promise<void> {
    const { orgs } = await connection.ask<{ orgs: { id: string }[] }>('GET', '/api/v2/orgs', { org })
    const retentionRules = [{ type: 'expire', everySeconds: 0, shardGroupDurationSeconds: 28 * 86_400 }]
    await connection.ask('POST', '/api/v2/buckets', {}, { orgID: orgs[0]!.id, name: bucket, retentionRules })
  }

  const spreadAlready = new WeakSet<RecordBatch>()
  await make()
  return {
    server: 'InfluxDB 2.7.12',
    parameters: `POSTs of gzip line protocol made before, ${inFlight} in flight, at most ${options.bodyBytes / 1024} KiB of text in each`,
    ready(batches) {
      spread(batches, spreadAlready)
      return batches.flatMap(batch => {
        const { lines } = encode(batch, [1])
        const textOf = (body: readonly number[]) => lines.bytes.subarray(lines.start[body[0]!], lines.start[body.at(-1)! + 1])
        const every = Array.from({ length: lines.length }, (_, line) => line)
        return splitBodies(lines, every, options).map(body => gzipSync(textOf(body), { level: 1 }))
      })
    },
    run: ready => eachAtOnce(ready as Buffer[], inFlight, send),
    empty,
    openSink: () => openSink({ connection, options, logs }),
    openAudit: () => openAudit(connection, options),
    async count() {
      let rows = 0
      const counted = `${fluxFrom(bucket)} |> filter(fn: (r) => r._field == "/position") |> count()`
      for await (const page of connection.query(counted)) for (const row of page) rows += Number(cell(row, '_value'))
      return rows
    },
    async close() {
      await Promise.all([pool.destroy(), connection.close()])
      await influx.stop()
    },
  }
}
