// How long publishers of `./sluice up` wait while one large message is sent to open live streams.
//
// One device publishes a message of many records to a channel that streams follow; another user's device continuously publishes single records, and
// waits for each answer. Each round opens new streams; those of `stuck` read nothing after the head of the answer.
//
// node benchmarks/up/live-streams.ts [--streams 0,20,200] [--mode read,stuck] [--records 16000] [--rounds 5] [--root /another/checkout]…

import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { Agent, type IncomingMessage, request } from 'node:http'
import { setTimeout as wait } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { expectStatus, makeSite, publish, type Site } from '../../test/up/operator.ts'
import { disposableFolder, startPlatform } from '../../test/up/platform.ts'

const here = new URL('../..', import.meta.url).pathname
const { values } = parseArgs({
  options: {
    streams: { type: 'string', default: '0,20,200' },
    mode: { type: 'string', default: 'read,stuck' },
    records: { type: 'string', default: '16000' },
    rounds: { type: 'string', default: '5' },
    root: { type: 'string', multiple: true, default: [here] },
    /** For the processes that this one starts. */
    role: { type: 'string' },
  },
})

/** Independent publishers, each with one request at a time. */
const publishers = 2
const quietMs = 2_000
/** For streams that read nothing, whose round would not end by itself. */
const roundMsMin = 5_000
const roundMsMax = 120_000

type Mode = 'read' | 'stuck'
type Order =
  | { kind: 'streams'; base: string; site: Site; count: number; mode: Mode; marker: string }
  | { kind: 'close' }
  | { kind: 'publish'; base: string; site: Site }
  | { kind: 'waits' }

/** The answer to `waits`: the requests that ended since the previous answer, in milliseconds. */
interface Waits {
  readonly median: number
  readonly worst: number
}

if (values.role === 'streams') serve(openStreamsRole())
else if (values.role === 'publishers') serve(openPublishersRole())
else await main()

async function main(): Promise<void> {
  const modes = values.mode.split(',') as Mode[]
  console.log('checkout  mode   streams  quiet median  worst wait of a publisher by round, ms        its own answer, ms  all delivered, s')
  for (const root of values.root) {
    for (const count of values.streams.split(',').map(Number)) {
      for (const mode of count === 0 ? modes.slice(0, 1) : modes) await measure(root, count, mode)
    }
  }
}

async function measure(root: string, count: number, mode: Mode): Promise<void> {
  await using folder = await disposableFolder()
  const environment = { SVC_LIVE_STREAMS_MAX: '4000' }
  const platform = await startPlatform({ data: folder.path, environment, root })
  const [followed, other] = [await makeSite(platform.url), await makeSite(platform.url)]
  const streams = start('streams')
  const others = start('publishers')
  await ask(others, { kind: 'publish', base: platform.url, site: other })
  const quiet: number[] = []
  const worst: number[] = []
  const own: number[] = []
  const delivered: string[] = []
  // The first round is a warm-up.
  for (let round = 0; round <= Number(values.rounds); round++) {
    const marker = `end-${round}`
    await ask(streams, { kind: 'streams', base: platform.url, site: followed, count, mode, marker })
    await wait(500)
    await ask(others, { kind: 'waits' })
    await wait(quietMs)
    const { median } = (await ask(others, { kind: 'waits' })) as Waits
    const startedMs = performance.now()
    await expectStatus(publish(platform.url, followed, pack(Number(values.records), marker)), 202)
    const ownMs = performance.now() - startedMs
    const all =
      mode === 'read' && count > 0 ? await Promise.race([message(streams), wait(roundMsMax, undefined, { ref: false })]) : undefined
    const deliveredMs = performance.now() - startedMs
    await wait(Math.max(roundMsMin - deliveredMs, 0))
    const { worst: worstMs } = (await ask(others, { kind: 'waits' })) as Waits
    await ask(streams, { kind: 'close' })
    if (round === 0) continue
    quiet.push(median)
    worst.push(worstMs)
    own.push(ownMs)
    delivered.push(all === undefined ? '-' : (deliveredMs / 1000).toFixed(1))
  }
  for (const child of [streams, others]) child.disconnect()
  await platform.stop()
  const whole = (numbers: number[]): string => numbers.map(number => number.toFixed(0)).join(' ')
  const cells = [
    root === here ? 'this' : root,
    mode.padEnd(5),
    String(count).padStart(7),
    `${median(quiet).toFixed(1)} ms`.padStart(12),
    whole(worst).padEnd(44),
    whole(own).padEnd(18),
    delivered.join(' '),
  ]
  console.log(cells.join('  '))
}

/** 16,000 records of 16 bytes are a payload of 256 KB. The name of the last record ends with the marker. */
function pack(records: number, marker: string): string {
  const body = '{"n":"a","v":1},'.repeat(records - 1)
  return `[${body}{"n":"${marker}","v":1}]`
}

function median(numbers: readonly number[]): number {
  return numbers.toSorted((one, another) => one - another)[Math.floor(numbers.length / 2)] ?? Number.NaN
}

/** Starts the clients in separate processes, so that they take no time from the platform's event loop. */
function start(role: 'streams' | 'publishers'): ChildProcess {
  return fork(import.meta.filename, ['--role', role])
}

async function ask(child: ChildProcess, order: Order): Promise<unknown> {
  const answer = message(child)
  child.send(order)
  return answer
}

async function message(child: ChildProcess): Promise<unknown> {
  const [answer] = (await once(child, 'message')) as [{ result?: unknown }]
  return answer.result
}

function serve(role: (order: Order) => Promise<unknown>): void {
  process.on('disconnect', () => process.exit())
  process.on('message', (order: Order) => void role(order).then(result => process.send!({ result })))
}

function openStreamsRole(): (order: Order) => Promise<unknown> {
  let open: IncomingMessage[] = []
  return async order => {
    if (order.kind === 'close') {
      for (const stream of open) stream.destroy()
      open = []
    } else if (order.kind === 'streams') {
      open = await Promise.all(Array.from({ length: order.count }, () => openStream(order)))
      const ends = open.map(stream => (order.mode === 'read' ? until(stream, order.marker) : new Promise(() => undefined)))
      if (open.length > 0) void Promise.all(ends).then(() => process.send!({ result: true }))
    }
    return undefined
  }
}

async function openStream({ base, site }: Order & { kind: 'streams' }): Promise<IncomingMessage> {
  const asked = request(`${base}/channels/${site.channel}/messages/stream`, { headers: { authorization: site.owner }, agent: false }).end()
  const [response] = (await once(asked, 'response')) as [IncomingMessage]
  if (response.statusCode !== 200) throw new Error(`a stream was answered ${response.statusCode}`)
  response.on('error', () => undefined)
  return response
}

/** Resolves when the marker arrives. */
function until(stream: IncomingMessage, marker: string): Promise<void> {
  let before = ''
  return new Promise(resolve => {
    stream.on('data', (bytes: Buffer) => {
      if (bytes.includes(marker) || (before + bytes.toString('latin1', 0, marker.length)).includes(marker)) resolve()
      before = bytes.toString('latin1', Math.max(bytes.length - marker.length, 0))
    })
  })
}

function openPublishersRole(): (order: Order) => Promise<unknown> {
  let waits: number[] = []
  const began = new Set<{ ms: number }>()
  let base = ''
  let site: Site
  const agent = new Agent({ keepAlive: true })

  async function run(): Promise<never> {
    for (;;) {
      const since = { ms: performance.now() }
      began.add(since)
      await publishOne()
      began.delete(since)
      waits.push(performance.now() - since.ms)
      await wait(2)
    }
  }

  async function publishOne(): Promise<void> {
    const headers = { authorization: site.device, 'content-type': 'application/senml+json' }
    const asked = request(`${base}/channels/${site.channel}/messages`, { method: 'POST', headers, agent }).end('[{"n":"t","v":1}]')
    const [response] = (await once(asked, 'response')) as [IncomingMessage]
    if (response.statusCode !== 202) throw new Error(`a message was answered ${response.statusCode}`)
    await once(response.resume(), 'end')
  }

  return async order => {
    if (order.kind === 'publish') {
      ;({ base, site } = order)
      for (let count = 0; count < publishers; count++) void run()
      return undefined
    }
    // Those still waiting began in the measured period.
    const waiting = [...began]
    while (waiting.some(one => began.has(one))) await wait(1)
    const found: Waits = { median: median(waits), worst: Math.max(...waits) }
    waits = []
    return found
  }
}
