// Starts a server that speaks MongoDB's protocol for the tests: FerretDB on SQLite.

import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll } from 'vitest'
import { cachePath, makeOnce } from './cache.ts'
import { describeUnlessMissing, whenRunning } from './describe-with.ts'
import { freePort } from './free-port.ts'
import { buildGoProgram, missingGo } from './go-install.ts'
import { type Kept, keep } from './keeper.ts'

/** The last version that needs no PostgreSQL with an extension of its own. */
const version = 'v1.24.2'
const program = (): string => cachePath('ferretdb', version, 'ferretdb')

export interface Mongo {
  /** `mongodb://127.0.0.1:<port>/` */
  readonly url: string
  /** Up again on the same port and data. `KILL` is as if it had crashed. */
  restart(how?: 'TERM' | 'KILL'): Promise<void>
  /** Ends it as if it had crashed, until `restart`. */
  kill(): Promise<void>
  /** Connections stay open, and nothing is answered. */
  pause(): void
  resume(): void
  /** Ends it and removes its data. It ends too when this process dies, however it dies. */
  stop(): Promise<void>
}

/** Why there is no such server, with what would help. */
export function missingMongo(): string | undefined {
  return existsSync(program()) ? undefined : missingGo()
}

/**
 * A `describe` over a server of its own. Where none can be built it is skipped, loudly and with what helps; with CI=true that is a
 * failure.
 *
 * @param suite is given the server, which runs while tests and hooks do
 */
export function describeWithMongo(name: string, suite: (mongo: Mongo) => void): void {
  describeUnlessMissing(name, missingMongo(), () => {
    let server: Mongo | undefined
    beforeAll(async () => {
      server = await startMongo()
    }, 600_000)
    afterAll(() => server?.stop(), 30_000)
    suite(whenRunning(() => server))
  })
}

/** Resolves when it is built: a minute the first time. */
export function installMongo(): Promise<void> {
  return makeOnce(program(), build)
}

/** Starts a server on loopback, on a port that was free: 0.1 s and 60 MB; a minute the first time, when it is built. */
export async function startMongo(): Promise<Mongo> {
  const missing = missingMongo()
  if (missing !== undefined) throw new Error(missing)
  await installMongo()
  const folder = await mkdtemp(join(tmpdir(), 'sluice-mongo-'))
  await mkdir(join(folder, 'data'))
  const port = await freePort()
  let server = await launch(folder, port)
  return {
    url: `mongodb://127.0.0.1:${port}/`,
    restart: async (how = 'TERM') => {
      await server.end(how)
      server = await launch(folder, port)
    },
    kill: () => server.end('KILL'),
    pause: () => server.signal('STOP'),
    resume: () => server.signal('CONT'),
    stop: async () => {
      await server.end('KILL')
      await rm(folder, { recursive: true, force: true })
    },
  }
}

function build(draft: string): Promise<void> {
  return buildGoProgram(draft, {
    module: 'github.com/FerretDB/FerretDB',
    version,
    main: './cmd/ferretdb',
    env: { CGO_ENABLED: '0' },
    // Its own build writes them; without them it does not start, or does not know its version.
    prepare: async sources => {
      const told = join(sources, 'build', 'version')
      await writeFile(join(told, 'version.txt'), `${version}\n`)
      for (const name of ['commit', 'branch', 'package']) await writeFile(join(told, `${name}.txt`), 'unknown\n')
    },
  })
}

function launch(folder: string, port: number): Promise<Kept> {
  const flags = {
    'listen-addr': `127.0.0.1:${port}`,
    handler: 'sqlite',
    'sqlite-url': `file:${join(folder, 'data')}/`,
    'state-dir': folder,
    'debug-addr': '-',
    telemetry: 'disable',
    'log-level': 'INFO',
  }
  return keep([program(), ...Object.entries(flags).map(([name, value]) => `--${name}=${value}`)], {
    folder,
    isReady: line => line.includes('Listening on TCP'),
  })
}
