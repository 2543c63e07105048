// Installs Debian's packages where that is possible, and says the one command where it is not.

import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** What a person would type. */
export function aptCommand(packages: readonly string[]): string {
  const isRoot = process.getuid?.() === 0
  return `${isRoot ? '' : 'sudo '}apt-get install -y --no-install-recommends ${packages.join(' ')}`
}

/**
 * Installs the packages, as root on Debian and its kin. Returns why nothing was installed, if so: empty where it was not tried.
 *
 * @param isThere shell commands that succeed when another process has installed them meanwhile
 * @param before shell commands that prepare the machine for the packages
 */
export function installPackages(packages: readonly string[], isThere: string, before = ''): string | undefined {
  if (process.getuid?.() !== 0 || !existsSync('/usr/bin/apt-get')) return ''
  // Under flock, since several test processes may find nothing at the same time; the second one finds it installed.
  const script = `
    ${isThere} && exit 0
    ${before}
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive ${aptCommand(packages)} -qq`
  try {
    execFileSync('flock', [join(tmpdir(), 'sluice-apt.lock'), 'sh', '-c', script], { stdio: 'pipe', timeout: 300_000 })
    return undefined
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
}
