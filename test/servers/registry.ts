// Starts a real schema registry for the tests: Apicurio, which answers as Confluent's does.

import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { beforeAll } from 'vitest'
import { cachePath, makeOnce } from './cache.ts'
import { describeUnlessMissing, whenRunning } from './describe-with.ts'
import { freePort } from './free-port.ts'
import { missingJava, runMaven } from './java-install.ts'
import { type Kept, keep } from './keeper.ts'
import { requestServer } from './server-request.ts'

const run = promisify(execFile)

/** The newest that runs on Java 17. */
const version = '3.0.9'
const program = (): string => cachePath('registry', version)

export interface Registry {
  /** As clients of Confluent's registry take it: `http://127.0.0.1:<port>/apis/ccompat/v7`. */
  readonly url: string
}

/** A registry of one's own, to be halted and ended. */
export interface OwnRegistry extends Registry {
  readonly pid: number
  /** SIGSTOP: connections stay open, and nothing is answered. */
  pause(): void
  resume(): void
  /** Ends it and removes its data. It ends too when this process dies, however it dies. */
  stop(): Promise<void>
}

/** Installs Java and Maven where they are missing. Returns why there is no registry after that, with the one command that would help. */
export function missingRegistry(): string | undefined {
  return missingJava(!existsSync(program()))
}

/**
 * A `describe` over the registry that all suites of a run share: it is started for the first that asks, and subjects of random names
 * keep them apart. Where Java cannot be had the suite is skipped, loudly and with the command that helps; with CI=true that is a failure.
 *
 * @param suite is given the registry, which runs while tests and hooks do
 */
export function describeWithRegistry(name: string, suite: (registry: Registry) => void): void {
  describeUnlessMissing(name, missingRegistry(), () => {
    let registry: Registry | undefined
    beforeAll(async () => {
      registry = { url: (await requestServer('registry')) as string }
    }, 300_000)
    suite(whenRunning(() => registry))
  })
}

/** Starts a registry on loopback, on a port that was free, which keeps its schemas in memory: 4 s and 240 MB. */
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

/** All of it is one archive; the parts that Maven knows of it are none that runs. */
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
