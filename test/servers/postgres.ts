// Starts real PostgreSQL servers for the tests: one that the suites of a run share, each with databases of its own, and separate ones.

import { randomUUID } from 'node:crypto'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { describeWithServer, describeWithShared } from './describe-with.ts'
import { missingPostgres, postgresPrograms } from './install/postgres.ts'
import { freshCluster, type Owner, serverOwner } from './postgres-cluster.ts'
import { freePort } from './process/free-port.ts'
import { type Kept, keep } from './process/keeper.ts'
import { requestServer } from './server-request.ts'

export interface PostgresAccess {
  /** As superuser, into the database `postgres`: `postgres://postgres@127.0.0.1:<port>/postgres`. */
  readonly url: string
  /** Creates an empty database; resolves with its URL. */
  createDatabase(): Promise<string>
}

/** A separate server. */
export interface Postgres extends PostgresAccess {
  /** Its data and other files; removed by `stop`. */
  readonly folder: string
  /** Restarts it on the same port and data. `immediate` simulates a crash. */
  restart(how?: 'fast' | 'immediate'): Promise<void>
  /** Simulates a crash, until `restart`. */
  kill(): Promise<void>
  /** Freezes the process that accepts connections: new ones are not answered, open ones continue. */
  pause(): void
  resume(): void
  /** Ends the server and removes its data. It also ends when this process dies in any way. */
  stop(): Promise<void>
}

export interface PostgresOptions {
  /** True for tests of durability; false, the default, is several times faster. */
  fsync?: boolean
  /** Further lines of postgresql.conf: `{ max_connections: '20' }`. */
  settings?: Readonly<Record<string, string>>
}

/**
 * A `describe` with the server shared by all suites of a run: the first one starts it. None damages it, creates roles, or looks at what belongs to
 * other databases. Without PostgreSQL the suite is skipped, with the command that helps; with CI=true that is a failure.
 *
 * @param suite gets the server, which runs during tests and hooks
 */
export function describeWithPostgres(name: string, suite: (postgres: PostgresAccess) => void): void {
  describeWithShared(name, missingPostgres(), async () => accessTo((await requestServer('postgres')) as string), suite)
}

/** Like `describeWithPostgres`, with a separate server. */
export function describeWithOwnPostgres(name: string, suite: (postgres: Postgres) => void, options: PostgresOptions = {}): void {
  describeWithServer(name, missingPostgres(), () => startPostgres(options), suite)
}

function accessTo(url: string): PostgresAccess {
  return { url, createDatabase: () => createDatabase(url, `test_${randomUUID().replaceAll('-', '')}`) }
}

/** Creates a database on the server of that URL, empty or as a copy of an unused one; resolves with its URL. */
export async function createDatabase(url: string, name: string, template = 'template1'): Promise<string> {
  const { default: pg } = await import('pg')
  const client = new pg.Client(url)
  await client.connect()
  try {
    await client.query(`CREATE DATABASE ${name} TEMPLATE ${template}`)
  } finally {
    await client.end()
  }
  return new URL(name, url).href
}

/** Starts a server on loopback, on a free port, with its own cluster. */
export async function startPostgres({ fsync = false, settings = {} }: PostgresOptions = {}): Promise<Postgres> {
  const missing = missingPostgres()
  const programs = postgresPrograms()
  if (programs === undefined) throw new Error(missing)
  const owner = serverOwner()
  const folder = await freshCluster(programs, owner)
  const durability = fsync ? 'on' : 'off'
  // A commit reaches the operating system in either case, so acknowledged data survives a crash of the server.
  const configured = { fsync: durability, full_page_writes: durability, max_connections: '60', ...settings }
  const port = await freePort()
  const start = (): Promise<Kept> => launch(programs, folder, owner, { ...configured, port: String(port) })
  let server = await start()
  const url = `postgres://postgres@127.0.0.1:${port}/postgres`
  return {
    ...accessTo(url),
    folder,
    restart: async (how = 'fast') => {
      await server.end(how === 'immediate' ? 'QUIT' : 'INT')
      server = await start()
    },
    kill: () => server.end('QUIT'),
    pause: () => server.signal('STOP'),
    resume: () => server.signal('CONT'),
    stop: async () => {
      await server.end('INT')
      await rm(folder, { recursive: true, force: true })
    },
  }
}

async function launch(
  programs: string,
  folder: string,
  owner: Owner | undefined,
  settings: Readonly<Record<string, string>>,
): Promise<Kept> {
  const always = { listen_addresses: '127.0.0.1', unix_socket_directories: '', logging_collector: 'off', lc_messages: 'C' }
  const options = Object.entries({ ...always, ...settings }).flatMap(([name, value]) => ['-c', `${name}=${value}`])
  return keep([join(programs, 'postgres'), '-D', join(folder, 'data'), ...options], {
    folder,
    owner,
    env: { LC_ALL: 'C' },
    isReady: line => line.includes('database system is ready to accept connections'),
    // Its other processes and its shared memory end with it, unlike after KILL.
    lastSignal: 'QUIT',
  })
}
