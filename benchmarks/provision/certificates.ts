// How many certificates `./sluice up` issues: with new P-256 keys over HTTP, each stored before it is answered.
//
// npm run bench -- provision/certificates [--seconds 10] [--connections 16]

import { parseArgs } from 'node:util'
import { call, expectStatus, makeSite } from '../../test/up/operator.ts'
import { disposableFolder, startPlatform } from '../../test/up/platform.ts'

const { values } = parseArgs({ options: { seconds: { type: 'string', default: '10' }, connections: { type: 'string', default: '16' } } })
const perSecondMin = 100
/** Certificates for one thing: fewer than may be valid at the same time. */
const certificatesPerThing = 90

await using folder = await disposableFolder()
const platform = await startPlatform({ data: folder.path })
const { owner: authorization } = await makeSite(platform.url)
let issued = 0
let thing = ''

/** Issues one certificate after another until the time is over, and creates their things on the way. */
async function issueUntil(endMs: number): Promise<void> {
  while (performance.now() < endMs) {
    if (issued++ % certificatesPerThing === 0) {
      const { json } = await expectStatus(call(platform.url, 'POST', '/things/bulk', { authorization, body: [{ name: 'device' }] }), 201)
      thing = (json!['things'] as [{ id: string }])[0].id
    }
    await expectStatus(call(platform.url, 'POST', '/certs', { authorization, body: { thing_id: thing, key_type: 'ec' } }), 201)
  }
}

async function cpuSeconds(): Promise<number> {
  const { text } = await call(platform.url, 'GET', '/metrics')
  return Number(/^process_cpu_seconds_total (\S+)$/m.exec(text)![1])
}

/** @returns certificates a second, and milliseconds of the platform's processor for each */
async function load(seconds: number): Promise<{ perSecond: number; cpuMs: number }> {
  issued = 0
  const cpuBefore = await cpuSeconds()
  const startedMs = performance.now()
  const connections = Array.from({ length: Number(values.connections) }, () => issueUntil(startedMs + seconds * 1000))
  await Promise.all(connections)
  const perSecond = issued / ((performance.now() - startedMs) / 1000)
  return { perSecond, cpuMs: ((await cpuSeconds()) - cpuBefore) * (1000 / issued) }
}

const { json } = await expectStatus(call(platform.url, 'POST', '/things/bulk', { authorization, body: [{ name: 'first' }] }), 201)
thing = (json!['things'] as [{ id: string }])[0].id
await load(2) // warm-up
const { perSecond, cpuMs } = await load(Number(values.seconds))
await platform.stop()
console.log(
  `${values.connections} connections  ${Math.round(perSecond)} certificates of P-256 a second, ${cpuMs.toFixed(1)} ms CPU each, target ${perSecondMin}/s${perSecond < perSecondMin ? '  missed' : ''}`,
)
