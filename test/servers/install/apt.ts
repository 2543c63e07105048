// Finds what Debian's packages bring, installs them if that is possible, and otherwise says which command does.

import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** The command for a person. */
function aptCommand(packages: readonly string[]): string {
  const isRoot = process.getuid?.() === 0
  return `${isRoot ? '' : 'sudo '}apt-get install -y --no-install-recommends ${packages.join(' ')}`
}

interface Wanted {
  readonly packages: readonly string[]
  /** What is missing, up to the command: `there is no kcat on this machine; this installs it`. */
  readonly problem: string
  /** Shell commands that succeed if what the packages bring is there, which another process may have installed meanwhile. */
  readonly check: string
  /** The same where it takes more than a command. */
  readonly isThere?: () => boolean
  /** Shell commands that prepare the machine for the packages. */
  readonly before?: string
}

/** Installs the packages if what they bring is missing. Returns why it still is, with the command that would help. */
export function missingPackages({ packages, problem, check, isThere = () => succeeds(check), before }: Wanted): string | undefined {
  if (isThere()) return undefined
  const failure = installPackages(packages, check, before)
  if (failure === undefined && isThere()) return undefined
  const advice = `${problem}: ${aptCommand(packages)}`
  return failure === undefined || failure === '' ? advice : `${advice} (it was tried: ${failure})`
}

function succeeds(commands: string): boolean {
  try {
    execFileSync('sh', ['-c', commands], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

/** As root on Debian and derived systems. Returns why nothing was installed; empty if it was not tried. */
function installPackages(packages: readonly string[], check: string, before = ''): string | undefined {
  if (process.getuid?.() !== 0 || !existsSync('/usr/bin/apt-get')) return ''
  // Under flock, because several test processes may start this at the same time; the second one finds everything installed.
  const script = `
    ${check} && exit 0
    ${before}
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive ${aptCommand(packages)} -qq`
  try {
    execFileSync('flock', [join(tmpdir(), 'sluice-apt.lock'), 'sh', '-c', script], { stdio: 'pipe', timeout: 300_000 })
    return undefined
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
}
