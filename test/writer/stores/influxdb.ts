// The time-series store of a site: InfluxDB, read with the tests' own queries and code.

import { request } from 'undici'
import { type InfluxAccess, startInflux } from '../../servers/influx.ts'
import { openProxy } from '../../servers/process/proxy.ts'
import { documentText, senmlText } from '../messages.ts'
import { placeAt, type StoredRow, type StoreSite } from './store-site.ts'

export async function openInfluxdbSite(): Promise<StoreSite> {
  const server = await startInflux()
  const proxy = await openProxy({ port: Number(new URL(server.url).port) })
  await writeForeign(server)
  const urlAt = (port: number | string): string => `http://127.0.0.1:${port}/?org=${server.org}&bucket=${server.bucket}`
  const token = { SVC_TIMESERIES_TOKEN: server.token }
  const ask = (flux: string) => answerOf(`${server.url}/api/v2/query?org=${server.org}`, server.token, flux)
  return {
    name: 'timeseries',
    proxy,
    environment: { ...token, SVC_TIMESERIES_URL: urlAt(proxy.port), SVC_STORE_REQUEST_TIMEOUT_MS: '10000' },
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

/**
 * Another program has written texts where the load has a number: the server refuses that number, and nothing else of its message. In this week and the
 * next, since a shard has a week, and a type for each field.
 */
async function writeForeign({ url, org, bucket, token }: InfluxAccess): Promise<void> {
  const nowSeconds = Math.floor(Date.now() / 1000)
  const lines = [nowSeconds, nowSeconds + 7 * 86_400].map(seconds => `engine clash="text" ${seconds}`)
  const headers = { authorization: `Token ${token}` }
  const response = await fetch(`${url}/api/v2/write?org=${org}&bucket=${bucket}&precision=s`, {
    method: 'POST',
    headers,
    body: lines.join('\n'),
  })
  if (!response.ok) throw new Error(`${response.status} ${await response.text()}`)
}

type Answer = Record<string, string>

const always = 'range(start: time(v: -9223372036854775806), stop: time(v: 9223372036854775806))'

const recordFields = ['/position', '/index', 'value']
const documentFields = ['/position', '/index', 'id//text', 'part', 'at/on//bool', 'at/value']

/**
 * Points are returned field by field, each with its series and time, and are combined and sorted here, in memory: a `pivot` in the server takes minutes,
 * because each message of the load is a separate series.
 */
async function* rowsOf(ask: (flux: string) => AsyncIterable<Answer>, bucket: string): AsyncGenerator<StoredRow> {
  const formats = new Map([['messages', 'messages']])
  const registered = `from(bucket: "${bucket}_sluice") |> ${always} |> filter(fn: (r) => r._measurement == "formats" and r._field == "format")`
  for await (const { name, _value } of ask(registered)) formats.set(name!, _value!)
  const points = new Map<string, Answer>()
  for (const field of new Set([...recordFields, ...documentFields])) {
    const values = `from(bucket: "${bucket}") |> ${always} |> filter(fn: (r) => r._field == "${field}") |> group(columns: ["_measurement"])`
    for await (const row of ask(values)) {
      const { _measurement, _time, channel = '', publisher = '', subtopic = '', name = '' } = row
      const key = [_measurement, channel, publisher, subtopic, name, row['nth'] ?? '', row['/nth'] ?? '', _time].join()
      let point = points.get(key)
      if (point === undefined) points.set(key, (point = { _measurement: _measurement!, _time: _time!, channel, publisher, subtopic, name }))
      point[field] = row['_value']!
    }
  }
  const placed = [...points.values()].map(point => ({
    point,
    position: BigInt(point['/position']!),
    index: Math.floor(Number(point['/index']) / 1000),
  }))
  placed.sort((one, other) => (one.position === other.position ? one.index - other.index : one.position < other.position ? -1 : 1))
  for (const { point, position, index } of placed) {
    yield { table: formats.get(point['_measurement']!) ?? 'no format', ...placeAt(position), index, text: textOf(point) }
  }
}

function textOf({ channel = '', publisher = '', subtopic = '', ...point }: Answer): string {
  const origin = { channel, publisher, subtopic }
  if (point['_measurement'] === 'messages') {
    const seconds = (milliseconds(point['_time']!) * 1000 + (Number(point['/index']) % 1000)) / 1e6
    return senmlText({ ...origin, name: point['name']!, value: Number(point['value']), seconds })
  }
  // The flattened form of `{ id, part, at: { on, value } }`.
  const at = { on: point['at/on//bool'] === 'true', value: Number(point['at/value']) }
  return documentText({ ...origin, payload: { id: point['id//text'], part: Number(point['part']), at } })
}

/** The first three digits of the fraction: the rest only distinguishes points. */
function milliseconds(timestamp: string): number {
  const [, seconds, fraction = ''] = /^(.*:\d\d)(?:\.(\d+))?Z$/.exec(timestamp)!
  return Date.parse(`${seconds}Z`) + Number(fraction.slice(0, 3).padEnd(3, '0'))
}

/** Rows of annotated CSV by column name; no text of these tests contains a comma, a quote or a line end. */
async function* answerOf(url: string, token: string, flux: string): AsyncGenerator<Answer> {
  // Without a time limit: the server groups all points before it sends the first one.
  const { statusCode, body } = await request(url, {
    method: 'POST',
    headers: { authorization: `Token ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify({ query: flux, dialect: { annotations: ['datatype'], header: true } }),
    headersTimeout: 0,
    bodyTimeout: 0,
  })
  if (statusCode !== 200) throw new Error(`${statusCode} ${await body.text()}`)
  let names: string[] | undefined
  let pending = ''
  for await (const chunk of body.setEncoding('utf8')) {
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
