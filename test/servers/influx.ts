// Starts a server of InfluxDB 2 for the tests.

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll } from 'vitest'
import { makeOnce } from './cache.ts'
import { describeUnlessMissing, whenRunning } from './describe-with.ts'
import { freePort } from './free-port.ts'
import { buildInflux, influxProgram, missingInflux } from './influx-install.ts'
import { type Kept, keep } from './keeper.ts'

export { missingInflux } from './influx-install.ts'

export interface Influx {
  /** `http://127.0.0.1:<port>` */
  readonly url: string
  readonly org: string
  /** There from the start, and keeps all for ever. */
  readonly bucket: string
  /** May do all. */
  readonly token: string
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

export interface InfluxOptions {
  /** More of influxd's own, `http-…`, without the dashes. */
  readonly flags?: Readonly<Record<string, string>>
  /** Serves HTTPS: paths of the key and the certificate as PEM, and the authority's text. */
  readonly tls?: { readonly key: string; readonly cert: string; readonly ca: string }
}

const org = 'sluice'
const bucket = 'messages'
const token = 'token-of-the-tests'

/**
 * A `describe` over a server of its own. Where none can be built it is skipped, loudly and with what helps; with CI=true that is a
 * failure.
 *
 * @param suite is given the server, which runs while tests and hooks do
 */
export function describeWithInflux(name: string, suite: (influx: Influx) => void): void {
  describeUnlessMissing(name, missingInflux(), () => {
    let server: Influx | undefined
    beforeAll(async () => {
      server = await startInflux()
    }, 1_800_000)
    afterAll(() => server?.stop(), 30_000)
    suite(whenRunning(() => server))
  })
}

/** Resolves when it is built: six minutes of two cores the first time. */
export function installInflux(): Promise<void> {
  return makeOnce(influxProgram(), buildInflux)
}

/** Starts a server on loopback, on a port that was free: 0.4 s and 160 MB; six minutes the first time, when it is built. */
export async function startInflux({ flags: given = {}, tls }: InfluxOptions = {}): Promise<Influx> {
  const missing = missingInflux()
  if (missing !== undefined) throw new Error(missing)
  await installInflux()
  const folder = await mkdtemp(join(tmpdir(), 'sluice-influx-'))
  const port = await freePort()
  const url = `${tls === undefined ? 'http' : 'https'}://127.0.0.1:${port}`
  const flags = { ...given, ...(tls === undefined ? {} : { 'tls-key': tls.key, 'tls-cert': tls.cert }) }
  let server = await launch(folder, port, flags)
  await setUp(url, tls?.ca)
  return {
    url,
    org,
    bucket,
    token,
    restart: async (how = 'TERM') => {
      await server.end(how)
      server = await launch(folder, port, flags)
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

function launch(folder: string, port: number, more: Readonly<Record<string, string>>): Promise<Kept> {
  const flags = {
    'http-bind-address': `127.0.0.1:${port}`,
    'bolt-path': join(folder, 'influxd.bolt'),
    'sqlite-path': join(folder, 'influxd.sqlite'),
    'engine-path': join(folder, 'engine'),
    'log-level': 'info',
    ...more,
  }
  return keep([influxProgram(), ...Object.entries(flags).map(([name, value]) => `--${name}=${value}`), '--reporting-disabled'], {
    folder,
    env: { HOME: folder, INFLUXD_CONFIG_PATH: folder },
    isReady: line => line.includes('Listening') && line.includes('tcp-listener'),
  })
}

/** Makes the organisation, its bucket and its token: a new server has none, and lets anybody do so once. */
async function setUp(url: string, ca: string | undefined): Promise<void> {
  const { Agent, request } = await import('undici')
  const response = await request(`${url}/api/v2/setup`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ username: 'admin', password: 'password-of-the-tests', org, bucket, token, retentionPeriodSeconds: 0 }),
    dispatcher: new Agent({ pipelining: 0, ...(ca === undefined ? {} : { connect: { ca } }) }),
  })
  const text = await response.body.text()
  if (response.statusCode !== 201) throw new Error(`InfluxDB cannot be set up: ${response.statusCode} ${text}`)
}
