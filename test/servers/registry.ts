// Starts a real schema registry for the tests: Apicurio, which is compatible with Confluent's.

import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { describeWithShared } from './describe-with.ts'
import { cachePath, makeOnce } from './install/cache.ts'
import { missingJava, runMaven } from './install/java.ts'
import { freePort } from './process/free-port.ts'
import { type Kept, keep } from './process/keeper.ts'
import { requestServer } from './server-request.ts'

const run = promisify(execFile)

/** The newest that runs on Java 17. */
const version = '3.0.9'
const program = (): string => cachePath('registry', version)

export interface Registry {
  /** For clients of Confluent's registry: `http://127.0.0.1:<port>/apis/ccompat/v7`. */
  readonly url: string
}

/** A separate registry, to be frozen and ended. */
export interface OwnRegistry extends Registry {
  readonly pid: number
  /** SIGSTOP: connections stay open, and nothing is answered. */
  pause(): void
  resume(): void
  /** Ends it and removes its data. It also ends when this process dies in any way. */
  stop(): Promise<void>
}

/** Installs Java and Maven if they are missing. Returns why the registry is not available, with the command that would help. */
export function missingRegistry(): string | undefined {
  return missingJava(!existsSync(program()))
}

/**
 * A `describe` with the registry shared by all suites of a run: the first one starts it, and random subject names keep them apart. Without Java
 * the suite is skipped, with the command that helps; with CI=true that is a failure.
 *
 * @param suite gets the registry, which runs during tests and hooks
 */
export function describeWithRegistry(name: string, suite: (registry: Registry) => void): void {
  describeWithShared(name, missingRegistry(), async () => ({ url: (await requestServer('registry')) as string }), suite)
}

/** Starts a registry on loopback, on a free port, which keeps its schemas in memory: 4 s and 240 MB. */
export async function startRegistry(): Promise<OwnRegistry> {
  const missing = missingRegistry()
  if (missing !== undefined) throw new Error(missing)
  await makeOnce(program(), install)
  const folder = await mkdtemp(join(tmpdir(), 'sluice-registry-'))
  const port = await freePort()
  const server = await launch(folder, port).catch(async (error: unknown) => {
    await rm(folder, { recursive: true, force: true })
    throw error
  })
  return {
    url: `http://127.0.0.1:${port}/apis/ccompat/v7`,
    pid: server.pid,
    pause: () => server.signal('STOP'),
    resume: () => server.signal('CONT'),
    stop: async () => {
      await server.end('KILL')
      await rm(folder, { recursive: true, force: true })
    },
  }
}

/** The program is one archive, because Maven's single artifacts cannot be run. */
async function install(folder: string): Promise<void> {
  const archive = `io.apicurio:apicurio-registry-app:${version}:tar.gz:all`
  await runMaven(folder, [], ['dependency:copy', `-Dartifact=${archive}`, `-DoutputDirectory=${folder}`, '-Dtransitive=false'])
  const [file = ''] = (await readdir(folder)).filter(name => name.endsWith('.tar.gz'))
  await run('tar', ['-xzf', join(folder, file), '-C', folder])
  await rm(join(folder, file))
}

async function launch(folder: string, port: number): Promise<Kept> {
  await mkdir(join(folder, 'tmp'))
  const settings = {
    'java.io.tmpdir': join(folder, 'tmp'),
    'quarkus.http.host': '127.0.0.1',
    'quarkus.http.port': port,
    'quarkus.management.host': '127.0.0.1',
    'quarkus.management.port': await freePort(),
    'quarkus.log.level': 'WARN',
    'quarkus.log.category."io.quarkus".level': 'INFO',
  }
  const flags = ['-Xmx256m', '-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1', '-XX:+ExitOnOutOfMemoryError']
  const properties = Object.entries(settings).map(([key, value]) => `-D${key}=${value}`)
  return keep(['java', ...flags, ...properties, '-jar', join(program(), `apicurio-registry-app-${version}-runner.jar`)], {
    folder,
    isReady: line => line.includes('Listening on:'),
  })
}
