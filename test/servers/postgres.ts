// Starts real PostgreSQL servers for the tests: one for each caller, so that test files in parallel share nothing.

import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll } from 'vitest'
import { describeUnlessMissing, whenRunning } from './describe-with.ts'
import { freePort } from './free-port.ts'
import { type Kept, keep } from './keeper.ts'
import { freshCluster, type Owner, serverOwner } from './postgres-cluster.ts'
import { missingPostgres, postgresPrograms } from './postgres-install.ts'

export interface Postgres {
  /** As superuser, into the database `postgres`: `postgres://postgres@127.0.0.1:<port>/postgres`. */
  readonly url: string
  /** Its data and whatever else it writes; removed by `stop`. */
  readonly folder: string
  /** A fresh, empty database; resolves with its URL. */
  createDatabase(): Promise<string>
  /** Up again on the same port and data, after its end if it runs. `immediate` is as if it had crashed. */
  restart(how?: 'fast' | 'immediate'): Promise<void>
  /** Ends it as if it had crashed, until `restart`. */
  kill(): Promise<void>
  /** Halts the process that takes connections: new ones are not answered, those that are open go on. */
  pause(): void
  resume(): void
  /** Ends the server and removes its data. It ends too when this process dies, however it dies. */
  stop(): Promise<void>
}

export interface PostgresOptions {
  /** On for tests of durability; off, the default, is several times faster. */
  fsync?: boolean
  /** More of postgresql.conf: `{ max_connections: '20' }`. */
  settings?: Readonly<Record<string, string>>
}

/**
 * A `describe` over a server of its own. Where no PostgreSQL can be had it is skipped, loudly and with the command that helps;
 * with CI=true that is a failure.
 *
 * @param suite is given the server, which runs while tests and hooks do
 */
export function describeWithPostgres(name: string, suite: (postgres: Postgres) => void, options: PostgresOptions = {}): void {
  describeUnlessMissing(name, missingPostgres(), () => {
    let server: Postgres | undefined
    beforeAll(async () => {
      server = await startPostgres(options)
    }, 60_000)
    afterAll(() => server?.stop(), 30_000)
    suite(whenRunning(() => server))
  })
}

/** Starts a server on loopback, on a port that was free, with a cluster of its own. */
export async function startPostgres({ fsync = false, settings = {} }: PostgresOptions = {}): Promise<Postgres> {
  const missing = missingPostgres()
  const programs = postgresPrograms()
  if (programs === undefined) throw new Error(missing)
  const owner = serverOwner()
  const folder = await freshCluster(programs, owner)
  const durability = fsync ? 'on' : 'off'
  // A commit reaches the operating system in either case, so that what was acknowledged survives a crash of the server.
  const configured = { fsync: durability, full_page_writes: durability, max_connections: '60', ...settings }
  const start = (port: number): Promise<Kept> => launch(programs, folder, owner, { ...configured, port: String(port) })

  let port = await freePort()
  let server = await start(port).catch(async (error: unknown) => {
    // Another process may take the port between our look and the server's.
    if (!String(error).includes('could not bind')) throw error
    port = await freePort()
    return start(port)
  })
  let databases = 0
  const urlOf = (database: string): string => `postgres://postgres@127.0.0.1:${port}/${database}`
  return {
    url: urlOf('postgres'),
    folder,
    createDatabase: async () => {
      databases += 1
      const name = `test_${databases}`
      const { default: pg } = await import('pg')
      const client = new pg.Client(urlOf('postgres'))
      await client.connect()
      try {
        await client.query(`CREATE DATABASE ${name}`)
      } finally {
        await client.end()
      }
      return urlOf(name)
    },
    restart: async (how = 'fast') => {
      await server.end(how === 'immediate' ? 'QUIT' : 'INT')
      server = await start(port)
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
    // Its other processes and its shared memory end with it, which they do not by KILL.
    lastSignal: 'QUIT',
  })
}
