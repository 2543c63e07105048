// Starts real PostgreSQL servers for the tests: one for each caller, so that test files in parallel share nothing.

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { afterAll, beforeAll, describe, test } from 'vitest'
import { freePort } from './free-port.ts'
import { freshCluster, type Owner, serverOwner } from './postgres-cluster.ts'
import { missingPostgres, postgresPrograms } from './postgres-install.ts'

export interface Postgres {
  /** As superuser, into the database `postgres`: `postgres://postgres@127.0.0.1:<port>/postgres`. */
  readonly url: string
  /** Its data and whatever else it writes; removed by `stop`. */
  readonly folder: string
  /** A fresh, empty database; resolves with its URL. */
  createDatabase(): Promise<string>
  /** Down and up again on the same port and data. `immediate` is as if it had crashed. */
  restart(how?: 'fast' | 'immediate'): Promise<void>
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
  const missing = missingPostgres()
  if (missing !== undefined) {
    if (process.env['CI'] === 'true') return test(name, () => Promise.reject(new Error(missing)))
    console.warn(`skipped: ${name}: ${missing}`)
    describe.skip(name, () => test(missing, () => undefined))
    return
  }
  describe(name, () => {
    let server: Postgres | undefined
    const running = (): Postgres => {
      if (server === undefined) throw new Error('the server runs while tests and hooks do, not while they are collected')
      return server
    }
    beforeAll(async () => {
      server = await startPostgres(options)
    }, 60_000)
    afterAll(() => server?.stop(), 30_000)
    suite({
      get url() {
        return running().url
      },
      get folder() {
        return running().folder
      },
      createDatabase: () => running().createDatabase(),
      restart: how => running().restart(how),
      stop: () => running().stop(),
    })
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
  const start = (port: number): Promise<ChildProcess> => launch(programs, folder, owner, { ...configured, port: String(port) })

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
      await end(server, how)
      server = await start(port)
    },
    stop: async () => {
      await end(server, 'fast')
      await rm(folder, { recursive: true, force: true })
    },
  }
}

/**
 * Runs the server under a shell that holds a pipe to us: a word in it ends the server, and so does its end, which comes also
 * when this process is killed. Then nobody is left to remove the folder, so the shell does.
 */
const keeper = `
folder=$1; shift
exec 3<&0
"$@" </dev/null 3<&- & server=$!
{
  if read -r how <&3; then signal=$([ "$how" = immediate ] && echo QUIT || echo INT)
  else touch "$folder/orphaned"; signal=QUIT; fi
  kill -$signal $server
} >/dev/null 2>&1 & watcher=$!
wait $server
code=$?
kill $watcher 2>/dev/null
[ -e "$folder/orphaned" ] && rm -rf "$folder"
exit $code`

async function launch(
  programs: string,
  folder: string,
  owner: Owner | undefined,
  settings: Readonly<Record<string, string>>,
): Promise<ChildProcess> {
  const always = { listen_addresses: '127.0.0.1', unix_socket_directories: '', logging_collector: 'off', lc_messages: 'C' }
  const options = Object.entries({ ...always, ...settings }).flatMap(([name, value]) => ['-c', `${name}=${value}`])
  const server = spawn('sh', ['-c', keeper, 'sh', folder, join(programs, 'postgres'), '-D', join(folder, 'data'), ...options], {
    ...owner,
    cwd: folder,
    env: { LC_ALL: 'C', PATH: process.env['PATH'] ?? '' },
    stdio: ['pipe', 'ignore', 'pipe'],
    // In a session of its own: a Ctrl-C in the terminal reaches the tests, and they end the server.
    detached: true,
  })
  const lines: string[] = []
  for await (const line of createInterface({ input: server.stderr })) {
    lines.push(line)
    if (line.includes('database system is ready to accept connections')) {
      // Read on, so that the server never waits for room in the pipe, without keeping this process alive.
      server.stderr.resume()
      server.unref()
      return server
    }
  }
  throw new Error(`PostgreSQL did not start:\n${lines.slice(-20).join('\n')}`)
}

async function end(server: ChildProcess, how: 'fast' | 'immediate'): Promise<void> {
  if (server.exitCode !== null) return
  const gone = once(server, 'exit')
  server.ref()
  server.stdin?.end(`${how}\n`)
  await gone
}
