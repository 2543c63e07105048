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

/** Debian's package would start its service, now and at each boot, on a port that may be in use. */
const startNothing = (service: string): string => `
    made=
    trap '[ -z "$made" ] || rm -f /usr/sbin/policy-rc.d; systemctl disable ${service} >/dev/null 2>&1 || true' EXIT
    if [ ! -e /usr/sbin/policy-rc.d ]; then
      made=yes
      printf '#!/bin/sh\\nexit 101\\n' > /usr/sbin/policy-rc.d && chmod +x /usr/sbin/policy-rc.d
    fi`

/** Installs the packages if a file is missing. Returns why they are not available, with the command that would help. */
export function missingService(service: string, packages: readonly string[], files: readonly string[]): string | undefined {
  const check = files.map(file => `test -e ${file}`).join(' && ')
  const problem = `there is no ${packages.join(' with ')} on this machine; this installs it`
  return missingPackages({ packages, problem, check, before: startNothing(service) })
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
