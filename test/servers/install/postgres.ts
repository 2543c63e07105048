// Finds PostgreSQL's programs on this machine, and installs them if they are missing and that is possible.

import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { missingPackages } from './apt.ts'

const debianFolder = '/usr/lib/postgresql'

/** The folder with `initdb` and `postgres` of the newest version; undefined if there is none. */
export function postgresPrograms(): string | undefined {
  const versions = existsSync(debianFolder) ? readdirSync(debianFolder).sort((a, b) => Number.parseInt(b, 10) - Number.parseInt(a, 10)) : []
  const folders = versions.map(version => join(debianFolder, version, 'bin'))
  return [...folders, ...configuredFolder()].find(folder => existsSync(join(folder, 'postgres')) && existsSync(join(folder, 'initdb')))
}

/** Installs PostgreSQL if it is missing. Returns why it is not available, with the command that would help. */
export function missingPostgres(): string | undefined {
  // Debian's package would otherwise create and start its own cluster.
  const before = `
    mkdir -p /etc/postgresql-common
    grep -qs '^create_main_cluster *= *false' /etc/postgresql-common/createcluster.conf || echo 'create_main_cluster = false' >> /etc/postgresql-common/createcluster.conf`
  return missingPackages({
    packages: ['postgresql'],
    problem: 'there is no PostgreSQL on this machine; this installs it',
    isThere: () => postgresPrograms() !== undefined,
    check: `test -d ${debianFolder}`,
    before,
  })
}

/** Where PostgreSQL was installed without Debian's packages. */
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
