// The contract of a peer: a pipeline from a Kafka topic into PostgreSQL, which is measured beside the others.
//
// Every peer gets the same topic, a fresh database on the same server, and a folder for its state. Messages are JSON documents of one reading,
// `{"device":"urn:dev:ow:…","sent_us":1764428400000000,"temperature":21.3}`, which `sluice bench load` makes. A peer stores a row for each, with these three
// values in columns of their own, in a table with two indexes: by device and time, and by time. Sluice instead has its own table: the same document as
// jsonb with the ids of its channel and device, and two indexes. Nothing else differs: fsync is on, and the server has its defaults.
//
// A peer is configured as its documentation advises for a high rate without loss. What that is stands in `settings/`, with a reason where a value is
// not the default. Everything that is said about a peer afterwards is counted in its table, by the sent_us of each row, and never by what it reports.

import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { keep } from '../../test/servers/process/keeper.ts'

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
  /** Builds or downloads it, once. @throws Error that says why it cannot be had on this machine */
  readonly install?: () => Promise<void>
  /** Statements that create its table; empty if it creates its own. */
  readonly schema: readonly string[]
  readonly table: string
  /** A query for `sent_us`, `temperature` and `xmin` of its rows. */
  readonly rows: string
  /** The program, which reads the topic from its beginning, or from where it was. */
  command(station: Station): Awaitable<{ readonly words: readonly string[]; readonly env?: Readonly<Record<string, string>> }>
}

type Awaitable<T> = T | Promise<T>

/** The table of those that create none. @param time name of the column, and its type */
export function tableOf(time: string, type: string): readonly string[] {
  return [
    `CREATE TABLE readings (device text NOT NULL, ${time} ${type} NOT NULL, temperature float8)`,
    `CREATE INDEX ON readings (device, ${time} DESC)`,
    `CREATE INDEX ON readings (${time} DESC)`,
  ]
}

/** For a program that can store the document's own field. */
export const plainTable = {
  schema: tableOf('sent_us', 'bigint'),
  table: 'readings',
  rows: 'SELECT sent_us, temperature, xmin FROM readings',
}

/** A peer that ended by itself, or stored nothing. The others are measured all the same. */
export class PeerFailure extends Error {
  override readonly name = 'PeerFailure'
}

export interface Running {
  readonly pid: number
  /** False once it has ended, however. */
  readonly alive: boolean
  /** With what it printed last. */
  failure(problem: string): Promise<PeerFailure>
  /** Gets SIGKILL if it has not ended half a minute after SIGTERM. */
  end(signal: 'TERM' | 'KILL'): Promise<void>
}

const stopMsMax = 30_000
const printedMax = 4000

/** It also ends when this process dies. */
export async function startPeer(peer: Peer, station: Station): Promise<Running> {
  const { folder } = station
  const { words, env = {} } = await peer.command(station)
  const printed = join(folder, 'printed')
  const shell = ['sh', '-c', 'echo started >&2; exec "$@" >>"$0" 2>&1', printed, ...words]
  const program = await keep(shell, { folder, env, isReady: line => line === 'started' })
  return {
    pid: program.pid,
    get alive() {
      return program.alive
    },
    failure: async problem => new PeerFailure(`${peer.title} ${problem}:\n${(await readFile(printed, 'utf8')).slice(-printedMax)}`),
    async end(signal) {
      const timer = setTimeout(() => program.signal('KILL'), stopMsMax)
      await program.end(signal)
      clearTimeout(timer)
    },
  }
}
