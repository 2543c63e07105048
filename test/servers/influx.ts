// Starts an InfluxDB 2 server for the tests.

import { join } from 'node:path'
import { describeWithServer, describeWithShared } from './describe-with.ts'
import { buildInflux, influxProgram, missingTools } from './install/influx.ts'
import { freePort } from './process/free-port.ts'
import { type Kept, keep } from './process/keeper.ts'
import { builtServer, flagsOf, type KeptServer, startKept } from './process/kept-server.ts'
import { requestServer } from './server-request.ts'

export const influxServer = builtServer('influx', influxProgram, missingTools, buildInflux)

export interface InfluxAccess {
  /** `http://127.0.0.1:<port>` */
  readonly url: string
  readonly org: string
  /** Exists from the start, and keeps data forever. */
  readonly bucket: string
  /** Has all permissions. */
  readonly token: string
}

/** A separate server, to be killed and frozen. */
export interface Influx extends InfluxAccess, KeptServer {}

export interface InfluxOptions {
  /** Further flags of influxd, `http-…`, without the dashes. */
  readonly flags?: Readonly<Record<string, string>>
  /** Serves HTTPS: paths of key and certificate as PEM, and the authority as text. */
  readonly tls?: { readonly key: string; readonly cert: string; readonly ca: string }
}

const org = 'sluice'
const bucket = 'messages'
const token = 'token-of-the-tests'

/**
 * A `describe` with the server shared by all suites of a run: random bucket names keep them apart. If it cannot be built the suite is skipped, with
 * what helps; with CI=true that is a failure.
 *
 * @param suite gets the server, which runs during tests and hooks
 */
export function describeWithInflux(name: string, suite: (influx: InfluxAccess) => void): void {
  describeWithShared(name, influxServer.missing(), async () => (await requestServer('influx')) as InfluxAccess, suite)
}

/** The same with a separate server. */
export function describeWithOwnInflux(name: string, suite: (influx: Influx) => void): void {
  describeWithServer(name, influxServer.missing(), startInflux, suite, 1_800_000)
}

/** Starts a server on loopback, on a free port: 0.4 s and 160 MB; six minutes the first time, when it is built. */
export async function startInflux({ flags: given = {}, tls }: InfluxOptions = {}): Promise<Influx> {
  const folder = await influxServer.folder()
  const port = await freePort()
  const url = `${tls === undefined ? 'http' : 'https'}://127.0.0.1:${port}`
  const flags = { ...given, ...(tls === undefined ? {} : { 'tls-key': tls.key, 'tls-cert': tls.cert }) }
  const server = await startKept(folder, () => launch(folder, port, flags))
  await setUp(url, tls?.ca)
  return {
    url,
    org,
    bucket,
    token,
    ...server,
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
  return keep([influxProgram(), ...flagsOf(flags), '--reporting-disabled'], {
    folder,
    env: { HOME: folder, INFLUXD_CONFIG_PATH: folder },
    isReady: line => line.includes('Listening') && line.includes('tcp-listener'),
  })
}

/** Creates the organisation, its bucket and its token: a new server has none, and accepts this once without credentials. */
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
