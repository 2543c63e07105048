// The contract of a peer: a pipeline from a Kafka topic into PostgreSQL, which is measured beside the others.
//
// Every peer gets the same topic, a fresh database on the same server, and a folder for its state. Messages are JSON documents of one reading,
// `{"device":"urn:dev:ow:…","sent_us":1764428400000000,"temperature":21.3}`, which `sluice bench load` makes. A peer stores a row for each, with these three
// values in columns of their own, in a table with two indexes: by device and time, and by time. Sluice instead has its own table: the same document as
// jsonb with the ids of its channel and device, and two indexes. Nothing else differs: fsync is on, and the server has its defaults.
//
// A peer is configured as its documentation advises for a high rate without loss. What that is stands in `settings/`, with a reason where a value is
// not the default. Everything that is said about a peer afterwards is counted in its table, by the sent_us of each row, and never by what it reports.

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'

/** Where a peer works. A restart gets the same. */
export interface Station {
  /** `127.0.0.1:9092` */
  readonly broker: string
  readonly topic: string
  readonly group: string
  /** `postgres://postgres@127.0.0.1:5432/…`, without a password. */
  readonly url: string
  /** Of its own, empty at the first start. */
  readonly folder: string
}

export interface Peer {
  /** Short, for `--peers`. */
  readonly name: string
  /** With the version. */
  readonly title: string
  /** What its documentation promises of a message. */
  readonly promise: string
  /** Why it cannot be had on this machine, with what would help; undefined if it can. */
  missing(): string | undefined
  /** Builds or downloads it, once. @throws Error if that fails */
  install(): Promise<unknown>
  /** Statements that create its table; empty if it creates its own. */
  readonly schema: readonly string[]
  readonly table: string
  /** A query for `sent_us`, `temperature` and `xmin` of its rows. */
  readonly rows: string
  /** The program, which reads the topic from its beginning, or from where it was. */
  command(station: Station): Promise<Command>
}

export interface Command {
  readonly words: readonly string[]
  readonly env: Readonly<Record<string, string>>
}

/** The table of those that create none. @param time the column of the reading's time */
export const tableOf = (time: string): readonly string[] => [
  `CREATE TABLE readings (device text NOT NULL, ${time} NOT NULL, temperature float8)`,
  `CREATE INDEX ON readings (device, ${time.split(' ')[0]} DESC)`,
  `CREATE INDEX ON readings (${time.split(' ')[0]} DESC)`,
]

/** For a program that can store the document's own field. */
export const plainTable = { schema: tableOf('sent_us bigint'), table: 'readings', rows: 'SELECT sent_us, temperature, xmin FROM readings' }

export interface Running {
  readonly pid: number
  /** False once it has ended, however. */
  readonly alive: boolean
  /** What it printed last. */
  readonly printed: string
  end(signal: 'SIGTERM' | 'SIGKILL'): Promise<void>
}

const stopMsMax = 30_000

export async function startPeer(peer: Peer, station: Station): Promise<Running> {
  const { words, env } = await peer.command(station)
  const child: ChildProcess = spawn(words[0]!, words.slice(1), {
    cwd: station.folder,
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let printed = ''
  for (const stream of [child.stdout!, child.stderr!])
    stream.setEncoding('utf8').on('data', (text: string) => (printed = (printed + text).slice(-6000)))
  let alive = true
  const exit = once(child, 'exit').then(() => void (alive = false))
  exit.catch(() => undefined)
  process.once('exit', () => child.kill('SIGKILL'))
  return {
    pid: child.pid!,
    get alive() {
      return alive
    },
    get printed() {
      return printed
    },
    async end(signal) {
      child.kill(signal)
      const timer = setTimeout(() => child.kill('SIGKILL'), stopMsMax)
      await exit
      clearTimeout(timer)
    },
  }
}
