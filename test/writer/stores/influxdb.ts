// The time-series store of a site: InfluxDB, read by queries and code of the tests' own.

import { startInflux } from '../../servers/influx.ts'
import { openProxy } from '../../servers/proxy.ts'
import { documentText, senmlText } from '../messages.ts'
import type { StoredRow, StoreSite } from './store-site.ts'

export async function openInfluxdbSite(): Promise<StoreSite> {
  const server = await startInflux()
  const proxy = await openProxy({ port: Number(new URL(server.url).port) })
  const urlAt = (port: number | string): string => `http://127.0.0.1:${port}/?org=${server.org}&bucket=${server.bucket}`
  const token = { SVC_TIMESERIES_TOKEN: server.token }
  const ask = (flux: string) => answerOf(`${server.url}/api/v2/query?org=${server.org}`, server.token, flux)
  return {
    name: 'timeseries',
    proxy,
    environment: { ...token, SVC_TIMESERIES_URL: urlAt(proxy.port), SVC_STORE_REQUEST_TIMEOUT_MS: '2000' },
    directEnvironment: { ...token, SVC_TIMESERIES_URL: urlAt(new URL(server.url).port) },
    rows: () => rowsOf(ask, server.bucket),
    kill: () => server.kill(),
    restart: how => server.restart(how),
    async close() {
      await proxy.close()
      await server.stop()
    },
  }
}

type Answer = Record<string, string>

const always = 'range(start: time(v: -9223372036854775806), stop: time(v: 9223372036854775806))'

/** The rows of a batch of fields lie apart, by series: they are put together and in order here, in memory. */
async function* rowsOf(ask: (flux: string) => AsyncIterable<Answer>, bucket: string): AsyncGenerator<StoredRow> {
  const formats = new Map<string, string>()
  const registered = `from(bucket: "${bucket}_sluice") |> ${always} |> filter(fn: (r) => r._measurement == "formats" and r._field == "format")`
  for await (const { name, _value } of ask(registered)) formats.set(name!, _value!)
  const rows: (StoredRow & { readonly position: bigint })[] = []
  const columns = '|> pivot(rowKey: ["_time"], columnKey: ["_field"], valueColumn: "_value")'
  for await (const row of ask(`from(bucket: "${bucket}") |> ${always} ${columns}`)) {
    const position = BigInt(row['/position']!)
    const place = {
      position,
      partition: Number((position >> 44n) & 0xfffn),
      offset: Number(position & 0xfff_ffff_ffffn),
      index: Number(row['/index']),
    }
    const { channel = '', publisher = '', subtopic = '' } = row
    if (row['_measurement'] === 'messages') {
      const seconds = microseconds(row['_time']!) / 1e6
      const text = senmlText({ channel, publisher, subtopic, name: row['name']!, value: Number(row['value']), seconds })
      rows.push({ table: 'messages', ...place, text })
    } else {
      // As flattening leaves it of `{ id, part, at: { on, value } }`.
      const at = { on: row['at/on'] === 'true', value: Number(row['at/value']) }
      const text = documentText({ channel, publisher, subtopic, payload: { id: row['id'], part: Number(row['part']), at } })
      rows.push({ table: formats.get(row['_measurement']!) ?? 'no format', ...place, text })
    }
  }
  rows.sort((one, other) => (one.position === other.position ? one.index - other.index : one.position < other.position ? -1 : 1))
  for (const { position: _, ...row } of rows) yield row
}

/** The first six digits behind the second: what follows only keeps points apart. */
function microseconds(instant: string): number {
  const [, seconds, fraction = ''] = /^(.*:\d\d)(?:\.(\d+))?Z$/.exec(instant)!
  return Date.parse(`${seconds}Z`) * 1000 + Number(fraction.slice(0, 6).padEnd(6, '0'))
}

/** Rows of annotated CSV by the names of their columns; no text of these tests holds a comma, a quote or a line end. */
async function* answerOf(url: string, token: string, flux: string): AsyncGenerator<Answer> {
  const response = await fetch(url, {
    method: 'POST',
    headers: { authorization: `Token ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify({ query: flux, dialect: { annotations: ['datatype'], header: true } }),
    signal: AbortSignal.timeout(120_000),
  })
  if (!response.ok) throw new Error(`${response.status} ${await response.text()}`)
  let names: string[] | undefined
  let pending = ''
  for await (const chunk of response.body!.pipeThrough(new TextDecoderStream())) {
    const lines = (pending + chunk).split('\r\n')
    pending = lines.pop()!
    for (const line of lines) {
      const cells = line.split(',')
      if (cells.length === 1) continue
      if (cells[0] === '#datatype') names = undefined
      else if (names === undefined) names = cells
      else yield Object.fromEntries(names.map((name, at) => [name, cells[at]!]))
    }
  }
}
