// CPU time of each role until it is ready, in all its threads, with an empty compile cache (cold) and with the one it left (warm).
// Another checkout is measured in turns with this one: `npm run bench -- roles start --root ../other`.
//
// node benchmarks/roles/start.ts [--turns 5] [--root <folder>] [--only <word>]

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { startKafka } from '../../test/servers/kafka.ts'
import { startPostgres } from '../../test/servers/postgres.ts'
import { freePort } from '../../test/servers/process/free-port.ts'
import { median } from '../median-time.ts'
import { cpuSeconds } from '../process-figures.ts'

const { values } = parseArgs({
  options: { turns: { type: 'string', default: '5' }, root: { type: 'string' }, only: { type: 'string', default: '' } },
})
const own = new URL('../..', import.meta.url).pathname
const checkouts = values.root === undefined ? [own] : [resolve(values.root), own]
const token = 'a-token-that-processes-share'

interface Start {
  readonly words: readonly string[]
  readonly environment: NodeJS.ProcessEnv
}

interface Started {
  /** CPU time until it was ready, or until it ended by itself. */
  readonly seconds: number
  stop(): Promise<void>
}

/** Starts a command, and waits until it is ready or has ended. */
async function start(root: string, { words, environment }: Start, cache: string): Promise<Started> {
  const before = await endedSeconds()
  const child = spawn(process.execPath, [join(root, 'main.ts'), ...words], {
    env: { ...process.env, SVC_INTERNAL_LISTEN: '127.0.0.1:0', ...environment, NODE_COMPILE_CACHE: cache },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const closed = once(child, 'close')
  let printed = ''
  const isReady = await new Promise<boolean>((resolve, reject) => {
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (text: string) => {
        printed += text
        if (/"msg":"ready"|^ready on/m.test(printed)) resolve(true)
      })
    }
    void closed.then(([code]) => (code === 0 ? resolve(false) : reject(new Error(`${words.join(' ')} ended with ${code}:\n${printed}`))))
  })
  return {
    seconds: isReady ? await cpuSeconds(child.pid!) : (await endedSeconds()) - before,
    async stop() {
      child.kill('SIGTERM')
      await closed
    },
  }
}

/** CPU time of the processes that this one has started and that have ended. */
async function endedSeconds(): Promise<number> {
  const fields = (await readFile('/proc/self/stat', 'utf8')).split(') ')[1]!.split(' ').map(Number)
  return (fields[13]! + fields[14]!) / 100
}

const folder = await mkdtemp(join(tmpdir(), 'sluice-starts-'))
const kafka = await startKafka()
const postgres = await startPostgres()
const internal = `127.0.0.1:${await freePort()}`
const store = { SVC_RELATIONAL_URL: await postgres.createDatabase() }
const log = { SVC_LOG_BROKERS: kafka.brokers[0]! }
const control = { SVC_CONTROL_URL: `http://${internal}`, SVC_CONTROL_TOKEN: token }
const api = {
  words: ['api', '--port', '0'],
  environment: {
    SVC_DATABASE_URL: await postgres.createDatabase(),
    SVC_MASTER_KEY: Buffer.alloc(32, 9).fill(3, 5).toString('base64url'),
    SVC_CONTROL_TOKEN: token,
    SVC_ADMIN_EMAIL: 'chief@sluice.example',
    SVC_ADMIN_PASSWORD: 'the chief of them all',
  },
}
const writer = { words: ['writer', 'relational', '--port', '0'], environment: { ...log, ...store, SVC_WORKERS_COUNT: '2' } }
const starts: Readonly<Record<string, Start>> = {
  'writer relational, 2 workers': writer,
  api,
  ingest: { words: ['ingest', '--port', '0'], environment: { ...log, ...control } },
  'reader relational': { words: ['reader', 'relational', '--port', '0'], environment: { ...store, ...control } },
  up: { words: ['up', '--port', '0', '--data', join(folder, 'data')], environment: { SVC_MQTT_PORT: '0' } },
  'dlq ls --help': { words: ['dlq', 'ls', '--help'], environment: {} },
}

const row = (what: string, cells: readonly string[]): void => console.log(what.padEnd(32) + cells.map(cell => cell.padStart(16)).join(''))
try {
  await kafka.createTopic({ name: 'messages', partitions: 12 })
  const cache = join(folder, 'cache')
  // A reader needs the tables that a writer creates, and roles apart a control plane.
  await (await start(own, writer, cache)).stop()
  const controlPlane = await start(own, { ...api, environment: { ...api.environment, SVC_INTERNAL_LISTEN: internal } }, cache)
  console.log(`CPU seconds, medians of ${values.turns} turns`)
  row(
    '',
    checkouts.flatMap(root => ['cold', 'warm'].map(state => `${state}, ${basename(root)}`)),
  )
  for (const [name, role] of Object.entries(starts)) {
    if (!name.includes(values.only)) continue
    const seconds = checkouts.map(() => [[], []] as [number[], number[]])
    // The first turn does not count: it creates the data.
    for (let turn = 0; turn <= Number(values.turns); turn++) {
      for (const [at, root] of checkouts.entries()) {
        const filled = await mkdtemp(join(folder, 'cache-'))
        for (const figures of seconds[at]!) {
          const started = await start(root, role, filled)
          await started.stop()
          if (turn > 0) figures.push(started.seconds)
        }
      }
    }
    row(
      name,
      seconds.flat().map(figures => median(figures).toFixed(2)),
    )
  }
  await controlPlane.stop()
} finally {
  await postgres.stop()
  await kafka.stop()
  await rm(folder, { recursive: true, force: true })
}
