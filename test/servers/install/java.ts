// Finds Java and Maven on this machine, installs them if possible, and downloads programs from Maven's central repository.

import { execFile, execFileSync } from 'node:child_process'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { missingPackages } from './apt.ts'

const run = promisify(execFile)

/** The minimum for Kafka 4 and the registry. */
const javaMajorMin = 17

export interface Artifact {
  readonly group: string
  readonly name: string
  readonly version: string
}

let found: string | undefined

/** As Java prints it, `17.0.15`; undefined without Java. */
export function javaVersion(): string | undefined {
  found ??= /version "([^"]+)"/.exec(outputOf('java', ['-version']))?.[1]
  return found
}

/**
 * Installs Java if it is missing, and Maven if it is needed. Returns what is missing after that, with the command that would help.
 *
 * @param needsMaven false if the cache contains everything that Maven would download
 */
export function missingJava(needsMaven: boolean): string | undefined {
  return missingPackages({
    packages: ['default-jre-headless', 'maven'],
    problem: `there is no Java ${javaMajorMin} or newer with Maven on this machine; this installs them`,
    isThere: () => hasAll(needsMaven),
    check: 'command -v java >/dev/null && command -v mvn >/dev/null',
  })
}

function hasAll(needsMaven: boolean): boolean {
  const version = javaVersion()
  if (version === undefined || Number.parseInt(version, 10) < javaMajorMin) return false
  return !needsMaven || outputOf('mvn', ['--version']).includes('Maven')
}

/** Empty if the program is missing. Java prints its version on the error stream. */
function outputOf(program: string, options: readonly string[]): string {
  try {
    return execFileSync('sh', ['-c', `"$0" "$@" 2>&1`, program, ...options], { stdio: 'pipe' }).toString()
  } catch {
    return ''
  }
}

/**
 * Runs Maven in a separate folder, on a project that depends on the artifacts.
 *
 * @throws Error with Maven's last output, which distinguishes a missing artifact from a missing network
 */
export async function runMaven(folder: string, artifacts: readonly Artifact[], options: readonly string[]): Promise<void> {
  await mkdir(folder, { recursive: true })
  const dependencies = artifacts.map(
    ({ group, name, version }) =>
      `<dependency><groupId>${group}</groupId><artifactId>${name}</artifactId><version>${version}</version></dependency>`,
  )
  const project = join(folder, 'pom.xml')
  await writeFile(
    project,
    `<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>sluice</groupId><artifactId>test-server</artifactId><version>1</version><packaging>pom</packaging>
<dependencies>
${dependencies.join('\n')}
</dependencies></project>
`,
  )
  try {
    await run('mvn', ['--batch-mode', '--no-transfer-progress', '--quiet', '--file', project, ...options], { cwd: folder })
  } catch (error) {
    const { stdout = '' } = error as { stdout?: string }
    throw new Error(`Maven could not fetch what the tests need; it said:\n${stdout.trim().split('\n').slice(-8).join('\n')}`, {
      cause: error,
    })
  }
}
