// How long publishers of `./sluice up` wait while one user sends the most expensive queries in parallel.
//
// A channel is filled with rows while the platform is down. One publisher of another user has a cached grant; the other uses a thing key whose grant is
// no longer cached, so that each of its messages needs a database query. Each sends one request at a time.
//
// node benchmarks/up/reader-queries.ts [--rows 507000] [--rounds 5] [--root /another/checkout]…

import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { Agent, type IncomingMessage, request } from 'node:http'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { openEmbedded } from '../../database/embedded/embedded.ts'
import { call, expectStatus, makeSite, type Site } from '../../test/up/operator.ts'
import { disposableFolder, startPlatform } from '../../test/up/platform.ts'

const here = new URL('../..', import.meta.url).pathname
const { values } = parseArgs({
  options: {
    rows: { type: 'string', default: '507000' },
    rounds: { type: 'string', default: '5' },
    root: { type: 'string', multiple: true, default: [here] },
    /** For the process that this one starts. */
    role: { type: 'string' },
  },
})

const queries = [
  'aggregation=first&interval=1h',
  'aggregation=first&interval=366d',
  'aggregation=avg&interval=1h',
  'latest=true',
  'name=nothing&count=exact',
]
const quietMs = 3_000
/** A grant is cached for five seconds, and a key is used once in twenty. */
const freshKeys = 1_000
const freshPauseMs = 20

type Order = { kind: 'publish'; base: string; channel: string; keys: readonly string[] } | { kind: 'waits' }

/** The answer to `waits`: the requests that ended since the previous answer, in milliseconds. */
interface Waits {
  readonly cached: readonly [median: number, worst: number]
  readonly fresh: readonly [median: number, worst: number]
}

if (values.role === 'publishers') serve(openPublishers())
else {
  for (const root of values.root) await measure(root)
}

async function measure(root: string): Promise<void> {
  await using folder = await disposableFolder()
  const start = (): ReturnType<typeof startPlatform> => startPlatform({ data: folder.path, root })
  const first = await start()
  const [asker, other] = [await makeSite(first.url), await makeSite(first.url)]
  const keys = await connectMany(first.url, other)
  await first.stop()
  await fill(join(folder.path, 'postgres'), asker)
  const platform = await start()
  console.log(`${root === here ? 'this' : root}: ${values.rows} rows, waits as median / worst in ms`)

  const publishers = fork(import.meta.filename, ['--role', 'publishers'])
  await ask(publishers, { kind: 'publish', base: platform.url, channel: other.channel, keys: [other.device, ...keys] })
  await wait(quietMs)
  await ask(publishers, { kind: 'waits' })
  await wait(quietMs)
  print('quiet', (await ask(publishers, { kind: 'waits' })) as Waits, [])
  for (let round = 1; round <= Number(values.rounds); round++) {
    const answers = await Promise.all(queries.map(query => timed(platform.url, asker, query)))
    print(`round ${round}`, (await ask(publishers, { kind: 'waits' })) as Waits, answers)
    await wait(500)
    await ask(publishers, { kind: 'waits' })
  }
  publishers.disconnect()
  await platform.stop()
}

async function connectMany(base: string, site: Site): Promise<string[]> {
  const body = Array.from({ length: freshKeys }, (_, nth) => ({ name: `sensor-${nth}` }))
  const made = await expectStatus(call(base, 'POST', '/things/bulk', { authorization: site.owner, body }), 201)
  const things = made.json!['things'] as { id: string; key: string }[]
  const pairs = { channel_ids: [site.channel], thing_ids: things.map(({ id }) => id) }
  await expectStatus(call(base, 'POST', '/connect', { authorization: site.owner, body: pairs }), 200)
  return things.map(({ key }) => `Thing ${key}`)
}

/** Ten series over thirty days. */
async function fill(folder: string, { channel }: Site): Promise<void> {
  const database = await openEmbedded({ folder })
  const rows = Number(values.rows)
  await database.query(
    `WITH written AS (
       INSERT INTO sluice.channels (channel, series) VALUES ($1, 10) ON CONFLICT (channel) DO UPDATE SET series = channels.series + 10 RETURNING id
     ), named AS (
       INSERT INTO sluice.series (channel, publisher, subtopic, protocol, name, unit)
       SELECT written.id, 'thing-' || n % 5, 'floor.3', 'http', 'urn:dev:ow:10e2073a01080063:' || n, 'Cel' FROM written, generate_series(0, 9) AS n
       RETURNING channel, id, name
     )
     INSERT INTO sluice.records (time, channel, series, value, position, index)
     SELECT now() - n * (interval '30 days' / ${rows}), channel, id, n % 997 / 8.0, n, 0
     FROM generate_series(1, ${rows}) AS n JOIN named ON name = 'urn:dev:ow:10e2073a01080063:' || n % 10`,
    [channel],
  )
  await database.execute('VACUUM ANALYZE sluice.records')
  await database.close()
}

async function timed(base: string, { channel, owner }: Site, query: string): Promise<string> {
  const startedMs = performance.now()
  const { status } = await call(base, 'GET', `/channels/${channel}/messages?${query}`, { authorization: owner })
  return `${((performance.now() - startedMs) / 1000).toFixed(1)} s${status === 200 ? '' : ` (${status})`}`
}

function print(what: string, { cached, fresh }: Waits, answers: readonly string[]): void {
  const shown = ([median, worst]: readonly [number, number]): string => `${median.toFixed(1)} / ${worst.toFixed(0)}`.padStart(13)
  console.log(`${what.padEnd(8)} cached grant ${shown(cached)}   fresh grant ${shown(fresh)}   answers ${answers.join(', ')}`)
}

async function ask(child: ChildProcess, order: Order): Promise<unknown> {
  const answered = once(child, 'message') as Promise<[{ result?: unknown }]>
  child.send(order)
  return (await answered)[0].result
}

function serve(role: (order: Order) => Promise<unknown>): void {
  process.on('disconnect', () => process.exit())
  process.on('message', (order: Order) => void role(order).then(result => process.send!({ result })))
}

/** In a separate process, so that they take no time from the platform's event loop. */
function openPublishers(): (order: Order) => Promise<unknown> {
  const agent = new Agent({ keepAlive: true })
  const began = new Set<object>()
  let [cached, fresh]: [number[], number[]] = [[], []]

  async function publish(url: string, authorization: string): Promise<number> {
    const since = { ms: performance.now() }
    began.add(since)
    const headers = { authorization, 'content-type': 'application/senml+json' }
    const asked = request(url, { method: 'POST', headers, agent }).end('[{"n":"t","v":1}]')
    const [response] = (await once(asked, 'response')) as [IncomingMessage]
    if (response.statusCode !== 202) throw new Error(`a message was answered ${response.statusCode}`)
    await once(response.resume(), 'end')
    began.delete(since)
    return performance.now() - since.ms
  }

  async function run(url: string, keys: readonly string[], pauseMs: number, add: (ms: number) => void): Promise<never> {
    for (let nth = 0; ; nth++) {
      add(await publish(url, keys[nth % keys.length]!))
      await wait(pauseMs)
    }
  }

  return async order => {
    if (order.kind === 'publish') {
      const url = `${order.base}/channels/${order.channel}/messages`
      const [own, ...keys] = order.keys
      void run(url, [own!], 2, ms => cached.push(ms))
      void run(url, keys, freshPauseMs, ms => fresh.push(ms))
      return undefined
    }
    // Those still waiting began in the measured period.
    const waiting = [...began]
    while (waiting.some(one => began.has(one))) await wait(1)
    const found = { cached: spread(cached), fresh: spread(fresh) }
    ;[cached, fresh] = [[], []]
    return found
  }
}

function spread(waits: readonly number[]): readonly [median: number, worst: number] {
  return [waits.toSorted((one, other) => one - other)[Math.floor(waits.length / 2)] ?? Number.NaN, Math.max(...waits)]
}
