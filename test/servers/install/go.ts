// Builds programs from their Go modules, at exact versions.

import { execFile, execFileSync } from 'node:child_process'
import { chmod, cp, mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)

/** The minimum version for the newest of the modules that are built here. */
const goMinorMin = 23

export interface GoProgram {
  /** `github.com/FerretDB/FerretDB` */
  readonly module: string
  /** `v1.24.2` */
  readonly version: string
  /** The folder of its `main` package, in the module: `./cmd/ferretdb`. */
  readonly main: string
  readonly env?: Readonly<Record<string, string>>
  readonly flags?: readonly string[]
  /** Prepares the sources; may return additional environment variables. */
  readonly prepare?: (sources: string) => Promise<Readonly<Record<string, string>> | void>
}

let found: number | undefined

/** The minor version of Go 1 on this machine; 0 without Go. */
function goMinor(): number {
  if (found !== undefined) return found
  try {
    const printed = execFileSync('go', ['version'], { stdio: 'pipe' }).toString()
    found = Number(/go1\.(\d+)/.exec(printed)?.[1] ?? 0)
  } catch {
    found = 0
  }
  return found
}

/** Why nothing can be built, with what would help; undefined if it can. Debian's own Go is too old to be installed for this. */
export function missingGo(): string | undefined {
  if (goMinor() >= goMinorMin) return undefined
  return `there is no Go 1.${goMinorMin} or newer on this machine; install the one of go.dev, and put it into PATH`
}

/** Returns its read-only folder. @param cwd outside any Go project */
export async function downloadGoModule(module: string, version: string, cwd: string): Promise<string> {
  const { stdout } = await run('go', ['mod', 'download', '-json', `${module}@${version}`], { cwd })
  return (JSON.parse(stdout) as { Dir: string }).Dir
}

/**
 * Builds a program from a copy of its module.
 *
 * `go install` would request the list of the module's versions, which not every proxy has; the exact version can be downloaded.
 *
 * @param file the path of the built program
 * @throws Error with the last output of the compiler
 */
export async function buildGoProgram(file: string, { module, version, main, env = {}, flags = [], prepare }: GoProgram): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-go-'))
  const sources = join(folder, 'sources')
  try {
    await cp(await downloadGoModule(module, version, folder), sources, { recursive: true })
    // The module cache is read-only, and so are copies of it.
    await run('chmod', ['-R', 'u+w', sources])
    const more = (await prepare?.(sources)) ?? {}
    await mkdir(join(file, '..'), { recursive: true })
    await run('go', ['build', '-trimpath', ...flags, '-o', file, main], {
      cwd: sources,
      env: { ...process.env, ...env, ...more },
      maxBuffer: 64 * 1024 * 1024,
    })
    await chmod(file, 0o755)
  } catch (error) {
    const { stderr = '' } = error as { stderr?: string }
    throw new Error(`${module} ${version} cannot be built; Go said:\n${stderr.trim().split('\n').slice(-8).join('\n')}`, { cause: error })
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}
