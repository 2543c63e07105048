// Installs and builds the servers of the slow tests: some take minutes, once, and two parallel builds twice as long. As a program it does this at the
// lowest priority, beside tests that need none of them.

import { spawn } from 'node:child_process'
import { existsSync, globSync, readFileSync } from 'node:fs'
import { setPriority } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { installCassandra, missingCassandra } from '../cassandra.ts'
import { influxServer } from '../influx.ts'
import { mongoServer } from '../mongo.ts'
import { openFgaServer } from '../openfga.ts'
import { stepCaServer } from '../step-ca.ts'
import { installKafka, missingKafka } from './kafka.ts'

interface Server {
  readonly name: string
  /** Of those that take minutes to build. */
  readonly isBuilt?: () => boolean
  /** Also installs the build tools, if possible. */
  readonly missing: () => string | undefined
  readonly install: () => Promise<unknown>
}

const servers: readonly Server[] = [
  { name: 'Kafka', missing: missingKafka, install: installKafka },
  { name: 'Cassandra', missing: missingCassandra, install: installCassandra },
  { name: 'FerretDB (a minute)', ...mongoServer },
  { name: 'OpenFGA (a minute)', ...openFgaServer },
  { name: 'step-ca (two minutes)', ...stepCaServer },
  { name: 'InfluxDB (six minutes)', ...influxServer },
]

/** Those that take minutes to build and are not in the cache. */
export function unbuiltServers(): string[] {
  return servers.filter(({ isBuilt }) => isBuilt?.() === false).map(({ name }) => name)
}

const root = fileURLToPath(new URL('../../..', import.meta.url))

export interface Preparing {
  isOver(): boolean
  readonly over: Promise<void>
}

/** Begins it in a separate process. If this process is killed, that one finishes what it builds. */
export function beginPreparing(): Preparing {
  const child = spawn(process.execPath, [fileURLToPath(import.meta.url)], { stdio: 'inherit' })
  let isOver = false
  const over = new Promise<void>((resolve, reject) => child.on('error', reject).on('close', () => resolve())).finally(() => (isOver = true))
  over.catch(() => undefined)
  return { isOver: () => isOver, over }
}

const builtInMinutes = /^test\/servers\/(?:influx|mongo|openfga|step-ca)\.ts$/

/** Divides the test files by whether they need a server that takes minutes to build, also through their imports. */
export function byBuilds(): { readonly on: string[]; readonly without: string[] } {
  const needs = new Map<string, boolean>()
  const needsBuild = (path: string): boolean => {
    const known = needs.get(path)
    if (known !== undefined) return known
    // Of files that import each other, the first one visited decides for both. A path in a text need not exist.
    needs.set(path, false)
    const imports = (existsSync(join(root, path)) ? readFileSync(join(root, path), 'utf8') : '').matchAll(/(?:from |import\()'(\.[^']+)'/g)
    const found = [...imports]
      .map(([, to]) => join(dirname(path), to!))
      .some(imported => builtInMinutes.test(imported) || (imported.startsWith('test/') && imported.endsWith('.ts') && needsBuild(imported)))
    needs.set(path, found)
    return found
  }
  const { on = [], without = [] } = Object.groupBy(globSync('test/**/*.test.ts', { cwd: root }), path =>
    needsBuild(path) ? 'on' : 'without',
  )
  return { on, without }
}

/** Reports servers that take longer than a second. Suites report themselves if their server is not available. */
async function prepareServers(say: (line: string) => void): Promise<void> {
  for (const { name, missing, install } of servers) {
    const startedMs = performance.now()
    const soon = setTimeout(() => say(`${name} is made ready, once`), 1000)
    try {
      if (missing() === undefined) await install()
    } catch (error) {
      say(`${name} cannot be made ready: ${String(error)}`)
    } finally {
      clearTimeout(soon)
    }
    const seconds = (performance.now() - startedMs) / 1000
    if (seconds > 1) say(`${name} took ${seconds.toFixed(0)} s`)
  }
}

if (import.meta.main) {
  setPriority(19)
  await prepareServers(console.log)
}
