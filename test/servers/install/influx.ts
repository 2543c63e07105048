// Builds InfluxDB 2 from its Go module and the crates of its query language; finds or installs the build tools.

import { execFile, execFileSync } from 'node:child_process'
import { mkdir, writeFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { delimiter, join } from 'node:path'
import { promisify } from 'node:util'
import { missingPackages } from './apt.ts'
import { cachePath } from './cache.ts'
import { buildGoProgram, missingGo } from './go.ts'

const run = promisify(execFile)

/** The last release of InfluxDB 2 that can be used as a Go module. */
const version = 'v2.7.12'
/** The minimum version of Rust for the crates of the query language. */
const rustMinorMin = 72
const programs = ['clang', 'pkg-config', 'gcc']

export const influxProgram = (): string => cachePath('influxdb', version, 'influxd')

/** Why it cannot be built, with what would help. */
export function missingTools(): string | undefined {
  return missingGo() ?? missingRust() ?? missingCompilers()
}

function missingRust(): string | undefined {
  if (Number(/rustc 1\.(\d+)/.exec(outputOf('rustc', ['--version']))?.[1] ?? 0) >= rustMinorMin) return undefined
  return `there is no Rust 1.${rustMinorMin} or newer with cargo on this machine; install the one of rustup.rs, and put it into PATH`
}

function missingCompilers(): string | undefined {
  return missingPackages({
    packages: ['clang', 'pkg-config', 'build-essential'],
    problem: 'InfluxDB is built with clang, pkg-config and gcc, which are not all on this machine; this installs them',
    isThere: () => programs.every(program => outputOf(program, ['--version']) !== ''),
    check: programs.map(program => `command -v ${program} >/dev/null`).join(' && '),
  })
}

/** Empty if the program is missing. */
function outputOf(program: string, options: readonly string[]): string {
  try {
    return execFileSync(program, options, { stdio: 'pipe', cwd: homedir() }).toString()
  } catch {
    return ''
  }
}

/** Takes six minutes on two cores. */
export function buildInflux(draft: string): Promise<void> {
  return buildGoProgram(draft, {
    module: 'github.com/influxdata/influxdb/v2',
    version,
    main: './cmd/influxd',
    flags: ['-tags', 'sqlite_foreign_keys,sqlite_json', '-ldflags', `-s -w -X main.version=${version}`],
    prepare: prepareRust,
  })
}

/**
 * InfluxDB's own pkg-config makes cargo build the query language, and otherwise calls the real one. The crates pin an old Rust and deny
 * warnings that newer ones have: this Rust is selected, and denied lints become warnings. A wrapper does that, because RUSTFLAGS does not
 * reach nested builds in build scripts.
 */
async function prepareRust(sources: string): Promise<Readonly<Record<string, string>>> {
  const tools = join(sources, '..', 'tools')
  await mkdir(tools)
  await run('go', ['build', '-o', join(tools, 'pkg-config'), 'github.com/influxdata/pkg-config'], { cwd: sources })
  const wrapper = join(tools, 'rustc-lints-capped')
  await writeFile(wrapper, '#!/bin/sh\nexec "$@" --cap-lints=warn\n', { mode: 0o755 })
  // Run outside the sources, which select another toolchain.
  const toolchain = process.env['RUSTUP_TOOLCHAIN'] ?? outputOf('rustup', ['show', 'active-toolchain']).split(' ')[0]?.trim()
  return {
    PATH: `${tools}${delimiter}${process.env['PATH'] ?? ''}`,
    PKG_CONFIG: join(tools, 'pkg-config'),
    RUSTC_WRAPPER: wrapper,
    ...(toolchain === undefined || toolchain === '' ? {} : { RUSTUP_TOOLCHAIN: toolchain }),
  }
}
