// Starts an OpenFGA server for the tests, with its data in a SQLite file.

import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { promisify } from 'node:util'
import { afterAll, beforeAll } from 'vitest'
import { cachePath, makeOnce } from './cache.ts'
import { describeUnlessMissing, whenRunning } from './describe-with.ts'
import { freePort } from './free-port.ts'
import { buildGoProgram, missingGo } from './go-install.ts'
import { type Kept, keep } from './keeper.ts'

const version = 'v1.22.1'
const program = (): string => cachePath('openfga', version, 'openfga')

export interface OpenFga {
  /** `http://127.0.0.1:<port>` */
  readonly url: string
  /** Its preshared key. */
  readonly key: string
  /** Up again on the same port and data. */
  restart(): Promise<void>
  /** Ends it as if it had crashed, until `restart`. */
  kill(): Promise<void>
  /** Connections stay open, and nothing is answered. */
  pause(): void
  resume(): void
  /** Ends it and removes its data. It ends too when this process dies, however it dies. */
  stop(): Promise<void>
}

/** Why there is no such server, with what would help. */
export function missingOpenFga(): string | undefined {
  return existsSync(program()) ? undefined : missingGo()
}

/** A `describe` over a server of its own; where none can be built, as `describeWithMongo`. */
export function describeWithOpenFga(name: string, suite: (openfga: OpenFga) => void): void {
  describeUnlessMissing(name, missingOpenFga(), () => {
    let server: OpenFga | undefined
    beforeAll(async () => {
      server = await startOpenFga()
    }, 600_000)
    afterAll(() => server?.stop(), 30_000)
    suite(whenRunning(() => server))
  })
}

/** Resolves when it is built: some minutes the first time. */
export function installOpenFga(): Promise<void> {
  return makeOnce(program(), draft =>
    buildGoProgram(draft, {
      module: 'github.com/openfga/openfga',
      version,
      main: './cmd/openfga',
      env: { CGO_ENABLED: '0' },
      flags: ['-ldflags', '-s -w'],
    }),
  )
}

/** Starts a server on loopback, on a port that was free. */
export async function startOpenFga(): Promise<OpenFga> {
  const missing = missingOpenFga()
  if (missing !== undefined) throw new Error(missing)
  await installOpenFga()
  const folder = await mkdtemp(join(tmpdir(), 'sluice-openfga-'))
  const store = ['--datastore-engine=sqlite', `--datastore-uri=file:${join(folder, 'openfga.db')}`]
  await promisify(execFile)(program(), ['migrate', ...store])
  const [port, grpcPort] = [await freePort(), await freePort()]
  const key = 'a key that the tests share'
  let server = await launch()
  async function launch(): Promise<Kept> {
    const flags = {
      'http-addr': `127.0.0.1:${port}`,
      'grpc-addr': `127.0.0.1:${grpcPort}`,
      'playground-enabled': 'false',
      'metrics-enabled': 'false',
      'log-level': 'info',
      'authn-method': 'preshared',
      'authn-preshared-keys': key,
    }
    const kept = await keep([program(), 'run', ...store, ...Object.entries(flags).map(([name, value]) => `--${name}=${value}`)], {
      folder,
      isReady: line => line.includes('starting HTTP server'),
    })
    // It says so before it listens.
    for (;;) {
      const answer = await fetch(`http://127.0.0.1:${port}/healthz`).catch(() => undefined)
      if (answer?.ok === true) return kept
      await wait(20)
    }
  }
  return {
    url: `http://127.0.0.1:${port}`,
    key,
    restart: async () => {
      await server.end('TERM')
      server = await launch()
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
