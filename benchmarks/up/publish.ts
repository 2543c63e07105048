// Throughput of `./sluice up` on its embedded defaults: single-record packs over HTTP, acknowledged durably, stored, and then counted in the database; then
// the same packs, many in one request with gzip.
//
// node benchmarks/up/publish.ts [--seconds 20] [--connections 32] [--lines 1000]

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { gzipSync } from 'node:zlib'
import { openEmbedded } from '../../database/embedded/embedded.ts'
import { call, makeSite } from '../../test/up/operator.ts'
import { disposableFolder, startPlatform } from '../../test/up/platform.ts'

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '20' },
    connections: { type: 'string', default: '32' },
    lines: { type: 'string', default: '1000' },
  },
})
const pack = JSON.stringify([{ bn: 'urn:dev:ow:10e2073a01080063:', n: 'temperature', u: 'Cel', v: 23.1 }])

/** The sum of a counter over all its labels. */
async function counter(base: string, name: string): Promise<number> {
  const { text } = await call(base, 'GET', '/metrics')
  const lines = text.split('\n').filter(line => line.startsWith(name) && !line.startsWith('#'))
  return lines.reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0)
}

interface LoadResult {
  readonly '2xx': number
  readonly non2xx: number
  readonly errors: number
  readonly duration: number
  readonly latency: { readonly p50: number; readonly p90: number; readonly p99: number; readonly max: number }
}

/** Sends the load from a separate process, so that it takes no time from the platform's event loop. */
async function load(url: string, key: string, seconds: number): Promise<LoadResult> {
  const autocannon = new URL('../../node_modules/autocannon/autocannon.js', import.meta.url).pathname
  const flags = ['--json', '--no-progress', '-c', values.connections, '-d', String(seconds), '-m', 'POST', '-b', pack]
  const headers = ['-H', `authorization=${key}`, '-H', 'content-type=application/senml+json']
  const child = spawn(process.execPath, [autocannon, ...flags, ...headers, url], { stdio: ['ignore', 'pipe', 'inherit'] })
  let output = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    output += text
  })
  await once(child, 'close')
  return JSON.parse(output)
}

/** Sends `--lines` packs in each request, from this process: compressed once, they cost it nothing. Returns the seconds of each request that got a 202. */
async function loadMany(url: string, authorization: string, seconds: number): Promise<number[]> {
  const body = gzipSync(`{"payload":${pack}}\n`.repeat(Number(values.lines)))
  const headers = { authorization, 'content-type': 'application/x-ndjson', 'content-encoding': 'gzip' }
  const endMs = performance.now() + seconds * 1000
  const latencies: number[] = []
  const send = async (): Promise<void> => {
    while (performance.now() < endMs) {
      const sentMs = performance.now()
      const answer = await fetch(url, { method: 'POST', headers, body })
      await answer.arrayBuffer()
      if (answer.status !== 202) throw new Error(`the answer is ${answer.status}`)
      latencies.push((performance.now() - sentMs) / 1000)
    }
  }
  await Promise.all(Array.from({ length: 4 }, send))
  return latencies.sort((one, other) => one - other)
}

await using folder = await disposableFolder()
const platform = await startPlatform({ data: folder.path })
const site = await makeSite(platform.url)
const url = `${platform.url}/channels/${site.channel}/messages`

await load(url, site.device, 3) // warm-up
const storedBefore = await counter(platform.url, 'component_sent_events_total')
const started = performance.now()
const result = await load(url, site.device, Number(values.seconds))
const loadSeconds = (performance.now() - started) / 1000
const storedAtEnd = (await counter(platform.url, 'component_sent_events_total')) - storedBefore
const manyStarted = performance.now()
const many = await loadMany(url, site.device, Number(values.seconds))
const manyASecond = many.length / ((performance.now() - manyStarted) / 1000)
const cpu = await counter(platform.url, 'process_cpu_seconds_total')
await platform.stop()

const database = await openEmbedded({ folder: join(folder.path, 'postgres') })
const [row] = await database.query<{ count: bigint }>('SELECT count(*) AS count FROM messages')
await database.close()

console.log(`connections           ${values.connections}`)
console.log(`acknowledged          ${result['2xx']} in ${result.duration} s = ${Math.round(result['2xx'] / result.duration)} messages/s`)
console.log(
  `stored by the end     ${storedAtEnd} of them in ${loadSeconds.toFixed(1)} s = ${Math.round(storedAtEnd / loadSeconds)} messages/s`,
)
console.log(
  `latency of the 202    p50 ${result.latency.p50} ms, p90 ${result.latency.p90} ms, p99 ${result.latency.p99} ms, max ${result.latency.max} ms`,
)
console.log(
  `${values.lines} in a gzip request  ${manyASecond.toFixed(1)} requests/s = ${Math.round(manyASecond * Number(values.lines))} messages/s on 4 connections, p50 of the 202 ${Math.round(1000 * many[many.length >> 1]!)} ms`,
)
console.log(`other answers         ${result.non2xx}, connection errors ${result.errors}`)
console.log(`rows in the database  ${row?.count} after the stop (those of the warm-up and of the last load among them)`)
console.log(`processor time        ${cpu.toFixed(1)} s since the start`)
