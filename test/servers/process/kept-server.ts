// A server with its own data on one port: restarts, freezes and removes it, whatever it is.

import { existsSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { cachePath, makeOnce } from '../install/cache.ts'
import { buildGoProgram, type GoProgram, missingGo } from '../install/go.ts'
import type { Kept } from './keeper.ts'

export interface KeptServer {
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

/** A server whose program is built once, and kept in the cache. */
export interface BuiltServer {
  readonly program: () => string
  readonly isBuilt: () => boolean
  /** Why the server is not available, with what would help. */
  readonly missing: () => string | undefined
  /** Resolves when it is built: some minutes the first time. */
  readonly install: () => Promise<void>
  /** Builds it if necessary, and returns an empty data folder. @throws Error if it is not available */
  readonly folder: () => Promise<string>
}

/**
 * With `TEST_BUILDS=no` it is only available if it was built before.
 *
 * @param missingTools why it cannot be built, with what would help
 * @param build into a file
 */
export function builtServer(
  name: string,
  program: () => string,
  missingTools: () => string | undefined,
  build: (file: string) => Promise<void>,
): BuiltServer {
  const isBuilt = (): boolean => existsSync(program())
  const missing = (): string | undefined => {
    if (isBuilt()) return undefined
    return process.env['TEST_BUILDS'] === 'no' ? `${name} is not built: npm test -- --all builds it` : missingTools()
  }
  const install = (): Promise<void> => makeOnce(program(), build)
  return {
    program,
    isBuilt,
    missing,
    install,
    async folder() {
      const reason = missing()
      if (reason !== undefined) throw new Error(reason)
      await install()
      return mkdtemp(join(tmpdir(), `sluice-${name}-`))
    },
  }
}

/** A server of one Go program without C. @param name of the program */
export function goServer(name: string, source: GoProgram): BuiltServer {
  const program = (): string => cachePath(name, source.version, name)
  const build = (file: string): Promise<void> =>
    buildGoProgram(file, { env: { CGO_ENABLED: '0' }, flags: ['-ldflags', '-s -w'], ...source })
  return builtServer(name, program, missingGo, build)
}

/** `{ port: '1' }` as the flags of a Go program: `--port=1`. */
export function flagsOf(flags: Readonly<Record<string, string>>): string[] {
  return Object.entries(flags).map(([name, value]) => `--${name}=${value}`)
}

/** @param launch starts it, the first time and again, on the same port and the folder's data */
export async function startKept(folder: string, launch: () => Promise<Kept>): Promise<KeptServer> {
  let server = await launch()
  return {
    restart: async (how = 'TERM') => {
      await server.end(how)
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
