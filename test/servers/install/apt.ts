// Installs Debian packages if possible, and otherwise returns the command for it.

import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** The command for a person. */
export function aptCommand(packages: readonly string[]): string {
  const isRoot = process.getuid?.() === 0
  return `${isRoot ? '' : 'sudo '}apt-get install -y --no-install-recommends ${packages.join(' ')}`
}

/**
 * Installs the packages, as root on Debian and derived systems. Returns why nothing was installed; empty if it was not tried.
 *
 * @param isThere shell commands that succeed if another process has installed them meanwhile
 * @param before shell commands that prepare the machine for the packages
 */
export function installPackages(packages: readonly string[], isThere: string, before = ''): string | undefined {
  if (process.getuid?.() !== 0 || !existsSync('/usr/bin/apt-get')) return ''
  // Under flock, because several test processes may start this at the same time; the second one finds everything installed.
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
