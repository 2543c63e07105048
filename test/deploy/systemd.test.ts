// The units of deploy/systemd: systemd reads each key of theirs, and rates their exposure as OK.

import { execFile } from 'node:child_process'
import { cpSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { describeUnlessMissing } from '../servers/describe-with.ts'
import { missingPackages } from '../servers/install/apt.ts'
import { temporaryFolder } from '../temporary-folder.ts'
import { root } from '../tidy/files.ts'

const run = promisify(execFile)
const samples = join(root, 'deploy/systemd')
const units = readdirSync(samples).filter(name => name.endsWith('.service'))

/** Of `systemd-analyze security`: from here on an exposure is medium. */
const exposureMax = 49

function missingSystemd(): string | undefined {
  const check = 'test -e /usr/bin/systemd-analyze'
  const problem = 'there is no systemd-analyze on this machine; this installs it'
  return missingPackages({ packages: ['systemd'], problem, check })
}

/** The units as they are installed, with this project in place of /opt/sluice, and `relational` as the store. */
function installed(): string {
  const folder = temporaryFolder()
  cpSync(samples, folder, { recursive: true })
  const instance = (name: string): string => join(folder, name.replace('@.', '@relational.'))
  for (const name of [...units, 'sluice-.service.d/service.conf']) {
    const path = join(folder, name)
    writeFileSync(path, readFileSync(path, 'utf8').replaceAll('/opt/sluice', root.replace(/\/$/, '')))
    renameSync(path, instance(name))
  }
  return folder
}

describeUnlessMissing('systemd', missingSystemd(), () => {
  test('there is a unit for each role', () => {
    expect(units).toEqual([
      'sluice-api.service',
      'sluice-bridge.service',
      'sluice-ingest.service',
      'sluice-reader@.service',
      'sluice-up.service',
      'sluice-writer@.service',
    ])
  })

  test('only an administrator creates users, unless sluice.env says otherwise', () => {
    const line = '\nEnvironment=SVC_USERS_ALLOW_SELF_REGISTER=false\n'
    const closed = units.filter(unit => readFileSync(join(samples, unit), 'utf8').includes(line))
    expect(closed).toEqual(['sluice-api.service', 'sluice-up.service'])
  })

  test.each(units)('%s is understood to the last key, and rated OK', async unit => {
    const name = unit.replace('@.', '@relational.')
    const cwd = installed()
    const { stdout, stderr } = await run('systemd-analyze', ['verify', '--recursive-errors=no', `./${name}`], { cwd })
    expect(stdout + stderr).toBe('')
    const rated = await run('systemd-analyze', ['security', '--offline=true', `--threshold=${exposureMax}`, `./${name}`], { cwd })
    expect(rated.stdout).toMatch(/Overall exposure level for .*: [0-4]\.\d OK/)
  })
})
