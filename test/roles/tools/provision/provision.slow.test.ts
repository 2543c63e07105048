// `sluice provision` as a process: its exit codes and output, and a fleet that is mapped once although its run is killed.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { main, onTerminal, sluice } from '../../../bin/command.ts'
import { temporaryFolder } from '../../../temporary-folder.ts'
import { type MappingServer, openMappingServer } from './mapping-server.ts'

/** @returns the paths of a fleet and its report */
function fleetOf(count: number): { fleet: string; report: string } {
  const fleet = join(temporaryFolder(), 'fleet.csv')
  const rows = Array.from({ length: count }, (_, at) => `d-${at},the key of ${at},device ${at}\n`)
  writeFileSync(fleet, `external_id,external_key,name\n${rows.join('')}`)
  return { fleet, report: fleet.replace('fleet.csv', 'fleet.report.csv') }
}

const words = ({ url, token }: MappingServer, fleet: string, ...more: string[]): string[] => [
  'provision',
  fleet,
  '--url',
  url,
  '--token',
  token,
  ...more,
]

/** The external ids of a report, with their outcomes. */
function reported(report: string): string[][] {
  const [, ...rows] = readFileSync(report, 'utf8').trimEnd().split('\n')
  return rows.map(row => row.split(',').slice(0, 2))
}

test('a run that is killed with SIGKILL can be resumed: each device is mapped once, and few are requested twice', async () => {
  const server = await openMappingServer()
  const count = 60
  const concurrency = 4
  const { fleet, report } = fleetOf(count)
  for (const killedAt of [15, 35]) {
    const reached = Promise.withResolvers<void>()
    const before = server.asked.length
    // Answers nothing from here on, so that there are running requests at the kill.
    server.hinder = (_mapping, nth) => {
      if (nth < killedAt) return undefined
      reached.resolve()
      return new Promise(() => undefined)
    }
    const child = spawn(process.execPath, [main, ...words(server, fleet, '--concurrency', String(concurrency))], { stdio: 'ignore' })
    await reached.promise
    child.kill('SIGKILL')
    await once(child, 'exit')
    expect(server.asked.length).toBeGreaterThan(before)
  }
  delete server.hinder
  const { code, output, errors } = await sluice(words(server, fleet, '--concurrency', String(concurrency)))
  expect([code, errors]).toEqual([0, ''])
  expect(output.toString()).toMatch(/^60 devices: \d+ created, (\d+ already present, )?\d+ done before; report: .*fleet\.report\.csv\n$/)

  const all = Array.from({ length: count }, (_, at) => `d-${at}`).toSorted()
  expect([...server.made.keys()].toSorted()).toEqual(all)
  const rows = reported(report)
  expect(rows.map(([id = '']) => id).toSorted()).toEqual(all)
  for (const [, outcome] of rows) expect(outcome).toMatch(/^(created|present)$/)
  // Each kill may leave as many unreported requests as were running.
  expect(server.asked.length - count).toBeLessThanOrEqual(2 * concurrency)
})

test('a failed row is named with its line and makes the exit code 1; without keys, nothing shows them', async () => {
  const server = await openMappingServer()
  const { fleet, report } = fleetOf(3)
  server.hinder = ({ external_id: id }) => (id === 'd-1' ? { status: 409, body: { detail: 'another owner has it' } } : undefined)
  const { code, output, errors } = await sluice(words(server, fleet))
  expect([code, errors]).toEqual([1, `${fleet}:3: d-1: conflict: another owner has it (409)\n`])
  expect(output.toString()).toBe(`3 devices: 2 created, 1 in conflict; report: ${report}\n`)
  expect(output.toString() + errors + readFileSync(report, 'utf8')).not.toContain('the key of')
})

test('private keys that are answered only once are warned of before anything is created, unless the report will contain them', async () => {
  const server = await openMappingServer()
  server.certified = 'pump\u001b[2K'
  const { fleet, report } = fleetOf(1)
  const without = await sluice(words(server, fleet, '--dry-run'))
  expect([without.code, server.asked]).toEqual([0, []])
  expect(without.errors).toBe(
    'warning: the private keys of pump\\u001b[2K are shown once and not stored: use --with-keys to include them in the report\n',
  )
  const withKeys = await sluice(words(server, fleet, '--with-keys', '--report', `${report}.keys`))
  expect([withKeys.code, withKeys.errors]).toEqual([0, ''])
  expect(readFileSync(`${report}.keys`, 'utf8')).toContain('a private key')
  const again = await sluice(words(server, fleet, '--with-keys', '--report', `${report}.again`))
  expect([again.code, again.errors]).toEqual([1, expect.stringContaining('d-0: present: it already existed, and the private keys of pump')])
})

test('on a terminal a bar shows how many devices are done, and disappears at the end', async () => {
  const server = await openMappingServer()
  const { fleet } = fleetOf(3)
  server.hinder = async (_mapping, nth) => {
    // Longer than the bar waits between two updates.
    if (nth > 1) await new Promise(resolve => setTimeout(resolve, 150))
    return undefined
  }
  const line = [process.execPath, main, ...words(server, fleet, '--concurrency', '1')].map(word => `'${word}'`).join(' ')
  const { code, shown } = await onTerminal(line)
  expect(code).toBe(0)
  expect(shown).toContain(`[${'#'.repeat(10)}${'-'.repeat(20)}] 33 %, 1 of 3 devices`)
  expect(shown).toContain(`[${'#'.repeat(20)}${'-'.repeat(10)}] 66 %, 2 of 3 devices`)
  expect(shown.split('\u001b[K').at(-1)).toMatch(/^3 devices: 3 created; report: \S+$/)
})

test('a wrong token is one error and exit code 1, and so is a bad row, before anything is sent', async () => {
  const server = await openMappingServer()
  const { fleet } = fleetOf(3)
  const refused = await sluice(['provision', fleet, '--url', server.url, '--token', 'another'])
  expect([refused.code, refused.output.length]).toEqual([1, 0])
  expect(refused.errors).toMatch(/^the platform rejects this token: .*\n$/)
  writeFileSync(fleet, 'external_id,external_key\nd-1,the key of 1\nd-2,\n')
  expect(await sluice(words(server, fleet))).toMatchObject({
    code: 1,
    errors: `${fleet}:3: external_key is missing\nnothing was sent: correct these rows\n`,
  })
  expect(server.asked).toEqual([])
})
