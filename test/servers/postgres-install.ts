// Finds PostgreSQL's programs on this machine, and installs them where there are none and that is possible.

import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const debianFolder = '/usr/lib/postgresql'
const command = 'apt-get install -y --no-install-recommends postgresql'

/** The folder with `initdb` and `postgres`, of the newest version; undefined where there is none. */
export function postgresPrograms(): string | undefined {
  const versions = existsSync(debianFolder) ? readdirSync(debianFolder).sort((a, b) => Number.parseInt(b, 10) - Number.parseInt(a, 10)) : []
  const folders = versions.map(version => join(debianFolder, version, 'bin'))
  return [...folders, ...configuredFolder()].find(folder => existsSync(join(folder, 'postgres')) && existsSync(join(folder, 'initdb')))
}

/** Installs PostgreSQL where it is missing. Returns why there is none after that, with the one command that would help. */
export function missingPostgres(): string | undefined {
  if (postgresPrograms() !== undefined) return undefined
  const isRoot = process.getuid?.() === 0
  const advice = `there is no PostgreSQL on this machine; this installs it: ${isRoot ? '' : 'sudo '}${command}`
  if (!isRoot || !existsSync('/usr/bin/apt-get')) return advice
  // Under flock, since several test processes may find nothing at the same time; the second one finds it installed.
  // Debian's package would otherwise make a cluster of its own and start it.
  const script = `
    test -d ${debianFolder} && exit 0
    mkdir -p /etc/postgresql-common
    grep -qs '^create_main_cluster *= *false' /etc/postgresql-common/createcluster.conf || echo 'create_main_cluster = false' >> /etc/postgresql-common/createcluster.conf
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive ${command} -qq`
  try {
    execFileSync('flock', [join(tmpdir(), 'sluice-apt.lock'), 'sh', '-c', script], { stdio: 'pipe', timeout: 300_000 })
  } catch (error) {
    return `${advice} (it was tried: ${error instanceof Error ? error.message : String(error)})`
  }
  return postgresPrograms() === undefined ? advice : undefined
}

/** Where PostgreSQL was installed by other means than Debian's packages. */
function configuredFolder(): string[] {
  try {
    return [
      execFileSync('pg_config', ['--bindir'], { stdio: ['ignore', 'pipe', 'ignore'] })
        .toString()
        .trim(),
    ]
  } catch {
    return []
  }
}
