// Starts a real Cassandra for the tests: one node that all suites of a run share, or one of a suite's own to kill and halt.

import { existsSync, readdirSync } from 'node:fs'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll } from 'vitest'
import { cachePath, makeOnce } from './cache.ts'
import { type CassandraDurability, type CassandraPlaces, cassandraYaml, javaFlags, logbackXml } from './cassandra-settings.ts'
import { describeUnlessMissing, whenRunning } from './describe-with.ts'
import { freePort } from './free-port.ts'
import { missingJava, runMaven } from './java-install.ts'
import { type Kept, keep } from './keeper.ts'
import { requestServer } from './server-request.ts'

const version = '5.0.9'
const libraries = (): string => cachePath('cassandra', version)

export interface Cassandra {
  /** `127.0.0.1:<port>`; its data center is `datacenter1`. */
  readonly contactPoint: string
}

/** A node of one's own. */
export interface OwnCassandra extends Cassandra {
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

/** Installs Java and Maven where they are missing. Returns why there is no Cassandra after that, with the one command that would help. */
export function missingCassandra(): string | undefined {
  return missingJava(!existsSync(libraries()))
}

/**
 * A `describe` over the node that all suites of a run share: keyspaces of random names keep them apart. Where Java cannot be had the
 * suite is skipped, loudly and with the command that helps; with CI=true that is a failure.
 *
 * @param suite is given the node, which runs while tests and hooks do
 */
export function describeWithCassandra(name: string, suite: (cassandra: Cassandra) => void): void {
  describeUnlessMissing(name, missingCassandra(), () => {
    let shared: Cassandra | undefined
    beforeAll(async () => {
      shared = { contactPoint: (await requestServer('cassandra')) as string }
    }, 300_000)
    suite(whenRunning(() => shared))
  })
}

/** The same over a node that this suite alone has, and may do harm to. */
export function describeWithOwnCassandra(name: string, suite: (cassandra: OwnCassandra) => void): void {
  describeUnlessMissing(name, missingCassandra(), () => {
    let own: OwnCassandra | undefined
    beforeAll(async () => {
      own = await startCassandra()
    }, 300_000)
    afterAll(() => own?.stop(), 30_000)
    suite(whenRunning(() => own))
  })
}

/** Resolves when Cassandra is installed: 10 s the first time. */
export function installCassandra(): Promise<void> {
  return makeOnce(libraries(), install)
}

/** Starts a node on loopback, on ports that were free: some 5 s and 1 GB. */
export async function startCassandra(durability: CassandraDurability = {}): Promise<OwnCassandra> {
  const missing = missingCassandra()
  if (missing !== undefined) throw new Error(missing)
  await installCassandra()
  const places: CassandraPlaces = {
    folder: await mkdtemp(join(tmpdir(), 'sluice-cassandra-')),
    port: await freePort(),
    storagePort: await freePort(),
  }
  const { folder, port } = places
  for (const name of ['conf', 'tmp']) await mkdir(join(folder, name))
  await writeFile(join(folder, 'conf', 'cassandra.yaml'), cassandraYaml(places, durability))
  await writeFile(join(folder, 'conf', 'logback.xml'), logbackXml)
  let node = await launch(folder)
  return {
    contactPoint: `127.0.0.1:${port}`,
    restart: async (how = 'TERM') => {
      await node.end(how)
      node = await launch(folder)
    },
    kill: () => node.end('KILL'),
    pause: () => node.signal('STOP'),
    resume: () => node.signal('CONT'),
    stop: async () => {
      await node.end('KILL')
      await rm(folder, { recursive: true, force: true })
    },
  }
}

function install(folder: string): Promise<void> {
  return runMaven(
    folder,
    [{ group: 'org.apache.cassandra', name: 'cassandra-all', version }],
    ['dependency:copy-dependencies', '-DincludeScope=runtime', `-DoutputDirectory=${join(folder, 'lib')}`],
  )
}

function launch(folder: string): Promise<Kept> {
  const lib = join(libraries(), 'lib')
  const agent = readdirSync(lib).find(name => /^jamm-.*\.jar$/.test(name))
  if (agent === undefined) throw new Error(`${lib} holds no jamm: remove it, and it is fetched anew`)
  const classPath = `${join(folder, 'conf')}:${join(lib, '*')}`
  return keep(['java', ...javaFlags(folder, join(lib, agent)), '-cp', classPath, 'org.apache.cassandra.service.CassandraDaemon'], {
    folder,
    isReady: line => line.includes('Startup complete'),
    startMsMax: 120_000,
  })
}
