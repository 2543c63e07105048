// Starts a real Cassandra for the tests: one node shared by all suites of a run, or a separate one to kill and freeze.

import { existsSync, readdirSync } from 'node:fs'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type CassandraDurability, type CassandraPlaces, cassandraYaml, javaFlags, logbackXml } from './cassandra-settings.ts'
import { describeWithServer, describeWithShared } from './describe-with.ts'
import { cachePath, makeOnce } from './install/cache.ts'
import { missingJava, runMaven } from './install/java.ts'
import { freePort } from './process/free-port.ts'
import { type Kept, keep } from './process/keeper.ts'
import { requestServer } from './server-request.ts'

const version = '5.0.9'
const libraries = (): string => cachePath('cassandra', version)

export interface Cassandra {
  /** `127.0.0.1:<port>`; its data center is `datacenter1`. */
  readonly contactPoint: string
}

/** A separate node. */
export interface OwnCassandra extends Cassandra {
  /** Restarts it on the same port and data. `KILL` simulates a crash. */
  restart(how?: 'TERM' | 'KILL'): Promise<void>
  /** Simulates a crash, until `restart`. */
  kill(): Promise<void>
  /** Connections stay open, and nothing is answered. */
  pause(): void
  resume(): void
  /** Ends it and removes its data. It also ends when this process dies in any way. */
  stop(): Promise<void>
}

/** Installs Java and Maven if they are missing. Returns why Cassandra is not available, with the command that would help. */
export function missingCassandra(): string | undefined {
  return missingJava(!existsSync(libraries()))
}

/**
 * A `describe` with the node shared by all suites of a run: random keyspace names keep them apart. Without Java the suite is skipped, with the
 * command that helps; with CI=true that is a failure.
 *
 * @param suite gets the node, which runs during tests and hooks
 */
export function describeWithCassandra(name: string, suite: (cassandra: Cassandra) => void): void {
  const request = async (): Promise<Cassandra> => ({ contactPoint: (await requestServer('cassandra')) as string })
  describeWithShared(name, missingCassandra(), request, suite)
}

/** The same with a separate node, which the suite may damage. */
export function describeWithOwnCassandra(name: string, suite: (cassandra: OwnCassandra) => void): void {
  describeWithServer(name, missingCassandra(), startCassandra, suite)
}

/** Resolves when Cassandra is installed: 10 s the first time. */
export function installCassandra(): Promise<void> {
  return makeOnce(libraries(), install)
}

/** Starts a node on loopback, on free ports: about 5 s and 1 GB. */
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
  })
}
