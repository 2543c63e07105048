// What HTTP ingest costs, on the embedded log and on Kafka, beside a bare `node:http` server that reads the same bytes and sends the same 202:
// `npm run bench -- http ingest`.
//
// node benchmarks/http/ingest/index.ts [--connections 64] [--seconds 5] [--turns 3]
//
// Three loads, each to the three servers in turn: a message of one record in a request; 1,000 of them as NDJSON; the same with gzip, which the bare server
// leaves compressed. Each server is a process of its own and so is the client. CPU time is that of the server's process, without the broker's. The 202
// waits for the disk (embedded), or for the broker, which does not sync.
//
// Example: npm run bench -- http ingest --seconds 1 --turns 1

import { fork } from 'node:child_process'
import { once } from 'node:events'
import { parseArgs } from 'node:util'
import { gzipSync } from 'node:zlib'
import { startKafka } from '../../../test/servers/kafka.ts'
import { disposableFolder } from '../../../test/up/platform.ts'
import { httpLoad } from '../../http-load.ts'
import { median } from '../../median-time.ts'
import { cpuSeconds } from '../../process-figures.ts'
import type { Answer, Settings } from './server.ts'

const { values } = parseArgs({
  options: {
    connections: { type: 'string', default: '64' },
    seconds: { type: 'string', default: '5' },
    turns: { type: 'string', default: '3' },
  },
})
const turns = Number(values.turns)
const pack = '[{"bn":"urn:dev:ow:10e2073a01080063:","n":"temperature","u":"Cel","v":23.1}]'
const lines = Buffer.from(`{"payload":${pack}}\n`.repeat(1000))
/** Of 16 channels, so that Kafka has messages for all its partitions. */
const paths = Array.from({ length: 16 }, (_, nth) => `/channels/0f9c1d1e-52cb-4ef4-8e4b-${String(nth).padStart(12, '0')}/messages`)
const [senml, ndjson] = ['application/senml+json', 'application/x-ndjson']

interface Load {
  readonly name: string
  readonly messages: number
  readonly connections: number
  readonly body: Uint8Array
  readonly headers: Readonly<Record<string, string>>
}
const single = { messages: 1, connections: Number(values.connections), headers: { 'content-type': senml } }
const many = { messages: 1000, connections: 4, headers: { 'content-type': ndjson } }
const loads: readonly Load[] = [
  { ...single, name: 'one message', body: Buffer.from(pack) },
  { ...many, name: '1,000 messages', body: lines },
  { ...many, name: '1,000 with gzip', body: gzipSync(lines), headers: { ...many.headers, 'content-encoding': 'gzip' } },
].map(load => ({ ...load, headers: { ...load.headers, authorization: 'Thing 2f0c4a7f-a7a4-4f9c-8c1d-1e52cb4ef48e' } }))

interface Server {
  readonly url: string
  readonly pid: number
  stop(): void
}

async function start(settings: Settings): Promise<Server> {
  const child = fork(new URL('server.ts', import.meta.url))
  child.send(settings)
  const [url] = (await once(child, 'message')) as [string]
  return { url, pid: child.pid!, stop: () => child.kill() }
}

/** What ingest answers to each type. */
async function answersOf({ url }: Server): Promise<Record<string, Answer>> {
  const answers: Record<string, Answer> = {}
  for (const { headers, body } of loads) {
    const answer = await fetch(url + paths[0]!, { method: 'POST', headers, body: Buffer.from(body) })
    const kept = [...answer.headers].filter(([name]) => !/^(connection|keep-alive|date)$/.test(name))
    if (answer.status !== 202) throw new Error(`${answer.status} ${await answer.text()}`)
    answers[headers['content-type']!] = { headers: Object.fromEntries(kept), text: await answer.text() }
  }
  return answers
}

interface Figures {
  readonly perSecond: number
  /** Of the server, for each request. */
  readonly cpuUs: number
  readonly p50: number
  readonly p99: number
}

async function measure({ url, pid }: Server, { connections, body, headers }: Load): Promise<Figures> {
  const before = await cpuSeconds(pid)
  const { perSecond, total, p50, p99 } = await httpLoad({ url, paths, connections, seconds: Number(values.seconds), headers, body })
  return { perSecond, cpuUs: (((await cpuSeconds(pid)) - before) * 1e6) / total, p50, p99 }
}

await using folder = await disposableFolder()
const kafka = await startKafka({ tuning: 'load' })
const servers: Record<string, Server> = {}
try {
  servers['kafka'] = await start({ kind: 'kafka', brokers: kafka.brokers, topic: await kafka.createTopic({ partitions: 12 }) })
  servers['embedded'] = await start({ kind: 'embedded', folder: folder.path })
  servers['bare'] = await start({ kind: 'bare', answers: await answersOf(servers['embedded']) })
  console.log(
    `medians of ${turns} turns of ${values.seconds} s           requests/s  of bare  messages/s  CPU us a request  of bare  p50 ms  p99 ms`,
  )
  for (const load of loads) {
    const found = Object.fromEntries(Object.keys(servers).map(name => [name, [] as Figures[]]))
    // The first turn is a warm-up.
    for (let turn = 0; turn <= turns; turn++) {
      for (const [name, server] of Object.entries(servers)) {
        const figures = await measure(server, load)
        if (turn > 0) found[name]!.push(figures)
      }
    }
    const of = (name: string, figure: keyof Figures): number => median(found[name]!.map(one => one[figure]))
    for (const name of ['bare', 'embedded', 'kafka']) {
      const [perSecond, cpuUs] = [of(name, 'perSecond'), of(name, 'cpuUs')]
      const whole = (figure: number, width: number): string => Math.round(figure).toLocaleString('en-US').padStart(width)
      const ratioToBare = (figure: keyof Figures): string => (of(name, figure) / of('bare', figure)).toFixed(2).padStart(8)
      const rates = [whole(perSecond, 10), ratioToBare('perSecond'), whole(perSecond * load.messages, 11)]
      const cells = [...rates, whole(cpuUs, 17), ratioToBare('cpuUs'), whole(of(name, 'p50'), 7), whole(of(name, 'p99'), 7)]
      console.log(`${load.name.padEnd(20)} ${name.padEnd(15)} ${cells.join(' ')}`)
    }
  }
} finally {
  for (const server of Object.values(servers)) server.stop()
  await kafka.stop()
}
