// `sluice provision` as a process: its exit codes and words, and that a fleet whose run is killed is mapped once all the same.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { main, sluice } from '../../bin/command.ts'
import { temporaryFolder } from '../../temporary-folder.ts'
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

test('a run that is killed with SIGKILL goes on where it was: each device is mapped once, and few are asked for twice', async () => {
  const server = await openMappingServer()
  const count = 60
  const concurrency = 4
  const { fleet, report } = fleetOf(count)
  for (const killedAt of [15, 35]) {
    const reached = Promise.withResolvers<void>()
    const before = server.asked.length
    // Nothing is answered from there on, so that the kill finds requests under way.
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
  expect(output.toString()).toMatch(/^60 devices: \d+ created, (\d+ there already, )?\d+ done before; report: .*fleet\.report\.csv\n$/)

  const all = Array.from({ length: count }, (_, at) => `d-${at}`).toSorted()
  expect([...server.made.keys()].toSorted()).toEqual(all)
  const rows = reported(report)
  expect(rows.map(([id = '']) => id).toSorted()).toEqual(all)
  for (const [, outcome] of rows) expect(outcome).toMatch(/^(created|present)$/)
  // Each kill may leave as many unreported as were under way.
  expect(server.asked.length - count).toBeLessThanOrEqual(2 * concurrency)
})

test('a row that fails is named with its line and makes the exit code 1; without keys nothing tells them', async () => {
  const server = await openMappingServer()
  const { fleet, report } = fleetOf(3)
  server.hinder = ({ external_id: id }) => (id === 'd-1' ? { status: 409, body: { detail: 'another owner has it' } } : undefined)
  const { code, output, errors } = await sluice(words(server, fleet))
  expect([code, errors]).toEqual([1, `${fleet}:3: d-1: conflict: another owner has it (409)\n`])
  expect(output.toString()).toBe(`3 devices: 2 created, 1 in conflict; report: ${report}\n`)
  expect(output.toString() + errors + readFileSync(report, 'utf8')).not.toContain('the key of')
})

test('a wrong token is one sentence and the exit code 1, and so is a bad row, before anything is sent', async () => {
  const server = await openMappingServer()
  const { fleet } = fleetOf(3)
  const refused = await sluice(['provision', fleet, '--url', server.url, '--token', 'another'])
  expect([refused.code, refused.output.length]).toEqual([1, 0])
  expect(refused.errors).toMatch(/^the platform does not know this token: .*\n$/)
  writeFileSync(fleet, 'external_id,external_key\nd-1,the key of 1\nd-2,\n')
  expect(await sluice(words(server, fleet))).toMatchObject({
    code: 1,
    errors: `${fleet}:3: external_key is missing\nnothing was sent: mend these rows\n`,
  })
  expect(server.asked).toEqual([])
})
