// How long an account that asks for little waits in `./sluice up` for a page, an export and a stream, while 50 others ask for as much as they can.
//
// Each of the 50 asks for the newest of many series, exports and streams, and again a second after each answer, as Retry-After says.
//
// node benchmarks/up/greedy-accounts.ts [--rounds 9] [--accounts 50] [--root /another/checkout]

import { setTimeout as wait } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { openEvents } from '../../test/readers/live/event-source.ts'
import { call, expectStatus, makeSite, publish, readUntil, type Site } from '../../test/up/operator.ts'
import { disposableFolder, startPlatform } from '../../test/up/platform.ts'
import { median } from '../median-time.ts'

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '9' },
    accounts: { type: 'string', default: '50' },
    root: { type: 'string', default: new URL('../..', import.meta.url).pathname },
  },
})
const recordsOfEach = 2_000
const ownRecords = 100
const asked = { latest: 6, exports: 2, streams: 21 }

await using folder = await disposableFolder()
const platform = await startPlatform({ data: folder.path, root: values.root })
const { url } = platform
const honest = await makeSite(url)
await expectStatus(publish(url, honest, pack(0, ownRecords)), 202)
await readUntil(url, honest, ownRecords)
const greedy: Site[] = []
for (let nth = 0; nth < Number(values.accounts); nth++) greedy.push(await makeSite(url))
for (const site of greedy)
  for (let from = 0; from < recordsOfEach; from += 1_000) await expectStatus(publish(url, site, pack(from, 1_000)), 202)
if (greedy.length > 0) await readUntil(url, greedy.at(-1)!, recordsOfEach)

const quiet = await measure()
const leaving = new AbortController()
const asking = greedy.flatMap(site => [
  ...Array.from({ length: asked.latest }, (_, nth) => askOn(site, `?latest=true&limit=${nth + 1}`)),
  ...Array.from({ length: asked.exports }, (_, nth) => askOn(site, `?limit=all&offset=${nth}`)),
  ...Array.from({ length: asked.streams }, () => askOn(site, '/stream')),
])
// The streams fill up to what is kept for others.
await wait(10_000)
const busy = await measure()
leaving.abort()
await Promise.all(asking)
await platform.stop()

console.log('         alone, median ms   beside the others, median ms   worst ms   refused')
for (const what of ['page', 'export', 'stream'] as const) {
  const { waits, refused } = busy[what]
  const figures = [
    median(quiet[what].waits).toFixed(0).padStart(18),
    median(waits).toFixed(0).padStart(29),
    Math.max(...waits)
      .toFixed(0)
      .padStart(10),
  ]
  console.log(`${what.padEnd(8)} ${figures.join(' ')} ${String(refused).padStart(9)}`)
}

/** Many series, so that the newest of each take a while. */
function pack(from: number, count: number): object[] {
  return Array.from({ length: count }, (_, nth) => ({ n: `series-${from + nth}`, v: nth, t: 1_700_000_000 + nth }))
}

async function askOn({ owner, channel }: Site, query: string): Promise<void> {
  const { signal } = leaving
  while (!signal.aborted) {
    await fetch(`${url}/channels/${channel}/messages${query}`, { headers: { authorization: owner }, signal })
      .then(answer => answer.text())
      .catch(() => undefined)
    await wait(1_000, undefined, { signal }).catch(() => undefined)
  }
}

/** How long each answer took, in ms, also those that refused; one that was cut off counts as refused. */
async function measure() {
  const { owner, channel } = honest
  const messages = `${url}/channels/${channel}/messages`
  const found = {
    page: { waits: [] as number[], refused: 0 },
    export: { waits: [] as number[], refused: 0 },
    stream: { waits: [] as number[], refused: 0 },
  }
  for (let round = 0; round < Number(values.rounds); round++) {
    for (const [what, query] of [
      ['page', ''],
      ['export', '?limit=all'],
    ] as const) {
      const startMs = performance.now()
      const { status } = await call(messages, 'GET', query, { authorization: owner }).catch(() => ({ status: 0 }))
      found[what].waits.push(performance.now() - startMs)
      if (status !== 200) found[what].refused++
    }
    const startMs = performance.now()
    const stream = await openEvents(`${messages}/stream`, { authorization: owner }).catch(() => undefined)
    found.stream.waits.push(performance.now() - startMs)
    if (stream === undefined) found.stream.refused++
    stream?.leave()
  }
  return found
}
