// Maps a fleet on a provisioning service: requests, report, retries, and resuming an interrupted run.

import { chmodSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeEach, expect, test } from 'vitest'
import { ToolError } from '../../../../bin/streams.ts'
import { parseCsv } from '../../../../roles/tools/provision/csv.ts'
import type { Device } from '../../../../roles/tools/provision/fleet.ts'
import { openFleetReport } from '../../../../roles/tools/provision/fleet-report.ts'
import type { MappingTarget } from '../../../../roles/tools/provision/mapping.ts'
import { type FleetResult, provisionFleet } from '../../../../roles/tools/provision/provision.ts'
import { temporaryFolder } from '../../../temporary-folder.ts'
import { type MappingServer, openMappingServer } from './mapping-server.ts'

let server: MappingServer
let path: string
let waits: number[]

beforeEach(async () => {
  server = await openMappingServer()
  path = join(temporaryFolder(), 'report.csv')
  waits = []
})

const device = (nth: number, rest: Partial<Device> = {}): Device => ({
  externalId: `d-${nth}`,
  externalKey: `the key of ${nth}`,
  line: nth + 1,
  ...rest,
})
const fleetOf = (count: number): Device[] => Array.from({ length: count }, (_, at) => device(at + 1))

/** One run; waits end immediately and are recorded. */
async function run(
  fleet: readonly Device[],
  { concurrency = 4, withKeys = false, ...rest }: Partial<MappingTarget> & { concurrency?: number; withKeys?: boolean } = {},
): Promise<FleetResult> {
  const wait = async (ms: number): Promise<void> => void waits.push(ms)
  const target: MappingTarget = { base: server.url, token: server.token, dryRun: false, wait, ...rest }
  const report = await openFleetReport(path, { platform: target.base, withKeys })
  try {
    return await provisionFleet({ fleet, report, target, concurrency })
  } finally {
    await report.close()
  }
}

const lines = (): string[][] =>
  readFileSync(path, 'utf8')
    .trimEnd()
    .split('\n')
    .map(line => line.split(','))
const counts = (result: FleetResult) => Object.fromEntries(result.counts)

test('each device is mapped once at any concurrency, and has a line with the ids of its things', async () => {
  expect(counts(await run([...fleetOf(20), device(21, { name: 'the roof' })], { concurrency: 7 }))).toEqual({ created: 21 })
  expect(server.asked).toHaveLength(21)
  expect(server.made.get('d-21')).toMatchObject({ external_key: 'the key of 21', name: 'the roof' })
  expect(server.made.get('d-1')).not.toHaveProperty('name')
  const [header, ...rows] = lines()
  expect(header).toEqual(['external_id', 'outcome', 'thing_ids', 'error', 'platform'])
  expect(new Set(rows.map(([id]) => id))).toEqual(new Set(server.made.keys()))
  for (const row of rows) expect(row).toEqual([expect.anything(), 'created', expect.stringMatching(/^[\da-f-]{36}$/), '', server.url])
  expect(readFileSync(path, 'utf8')).not.toMatch(/the key of|thing_keys|certificates/)
})

test('as many requests run in parallel as configured, and no more', async () => {
  let [under, most] = [0, 0]
  let three = Promise.withResolvers<undefined>()
  // Each is held until three are running: with fewer this would not end.
  server.hinder = async (_mapping, nth) => {
    most = Math.max(most, ++under)
    const { promise, resolve } = three
    if (nth % 3 === 0) {
      three = Promise.withResolvers()
      resolve(undefined)
    }
    await promise
    under--
    return undefined
  }
  await run(fleetOf(9), { concurrency: 3 })
  expect(most).toBe(3)
})

test('with keys the report has everything that is answered only once, keys and certificates with private keys, and only its owner can read it', async () => {
  server.certified = 'pump'
  const once = [device(1)]
  await run(once, { withKeys: true })
  const rows = (): string[] => parseCsv(path, readFileSync(path, 'utf8')).map(({ cells }) => cells.slice(-2).join('|'))
  const pump = readFileSync(path, 'utf8').match(/[\da-f-]{36}/g)![1]!
  const certificate = { [pump]: { client_cert: `a certificate\nof ${pump}`, client_key: `a private key\nof ${pump}` } }
  expect(rows()).toEqual(['thing_keys|certificates', expect.stringMatching(/^[\da-f-]{36} [\da-f-]{36}\|/)])
  expect(JSON.parse(rows()[1]!.split('|')[1]!)).toEqual(certificate)
  // One line each, so that a truncated one is detected.
  expect(lines()).toHaveLength(2)
  expect(statSync(path).mode & 0o777).toBe(0o600)
})

test('if others could read a report with keys, it is made private before the next key is written', async () => {
  await run([], { withKeys: true })
  chmodSync(path, 0o644)
  await run(fleetOf(1), { withKeys: true })
  expect(statSync(path).mode & 0o777).toBe(0o600)
})

test('devices that an earlier run has mapped are not sent again, and failed ones are', async () => {
  server.hinder = ({ external_id: id }) =>
    id === 'd-2' ? { status: 409, body: { error: 'conflict', detail: 'another owner, "x"' } } : undefined
  const first = await run(fleetOf(3))
  expect(counts(first)).toEqual({ created: 2, conflict: 1 })
  expect(first.failures).toEqual([{ externalId: 'd-2', outcome: 'conflict', error: 'another owner, "x" (409)', line: 3 }])
  expect(readFileSync(path, 'utf8')).toContain('d-2,conflict,,"another owner, ""x"" (409)",')
  delete server.hinder
  expect(counts(await run(fleetOf(4)))).toEqual({ skipped: 2, created: 2 })
  expect(server.asked.map(({ external_id: id }) => id).toSorted()).toEqual(['d-1', 'd-2', 'd-2', 'd-3', 'd-4'])
})

test('devices that were mapped before there was a report count as existing', async () => {
  await run(fleetOf(2))
  path = join(temporaryFolder(), 'other.csv')
  expect(counts(await run(fleetOf(3)))).toEqual({ present: 2, created: 1 })
})

test('a report of one platform does not apply to another', async () => {
  await run(fleetOf(2))
  server = await openMappingServer()
  expect(counts(await run(fleetOf(2)))).toEqual({ created: 2 })
})

test('a dry run sends requests for all, creates nothing, and does not count as done', async () => {
  await run([device(1)])
  expect(counts(await run(fleetOf(2), { dryRun: true }))).toEqual({ valid: 2 })
  expect([...server.made.keys()]).toEqual(['d-1'])
  expect(counts(await run(fleetOf(2)))).toEqual({ skipped: 1, created: 1 })
})

test('a truncated line is removed, and its device sent again', async () => {
  await run(fleetOf(2), { concurrency: 1 })
  const whole = readFileSync(path, 'utf8')
  writeFileSync(path, whole.slice(0, -10))
  expect(counts(await run(fleetOf(2)))).toEqual({ skipped: 1, present: 1 })
  expect(readFileSync(path, 'utf8')).toBe(whole.replace('d-2,created', 'd-2,present'))
  expect(counts(await run(fleetOf(2)))).toEqual({ skipped: 2 })
  writeFileSync(path, 'external_i')
  expect(counts(await run(fleetOf(1)))).toEqual({ present: 1 })
})

test.each([
  ['another file', 'external_id,external_key\nd-1,k\n', false],
  ['one without an end of line', 'secrets', false],
  ['a report without keys', undefined, true],
])('%s is not a report that can be continued, and is not changed', async (_name, text, withKeys) => {
  if (text === undefined) await run(fleetOf(1))
  else writeFileSync(path, text)
  const before = readFileSync(path, 'utf8')
  await expect(run(fleetOf(1), { withKeys })).rejects.toThrow(/choose another with --report/)
  expect(readFileSync(path, 'utf8')).toBe(before)
})

test('a report that cannot be written is an error before anything is sent', async () => {
  path = join(path, 'in-no-folder')
  await expect(run(fleetOf(1))).rejects.toThrow(/cannot be written \(ENOENT\): choose another with --report/)
  expect(server.asked).toEqual([])
})

test.each([
  ['503 with seconds', { status: 503, headers: { 'retry-after': '7' } }, [7_000]],
  ['429 with seconds', { status: 429, headers: { 'retry-after': '1' } }, [1_000]],
  ['503 for longer than a platform should ask', { status: 503, headers: { 'retry-after': '9999' } }, [600_000]],
  ['502 of a proxy', { status: 502, body: '<html>' }, [expect.closeTo(375, -3)]],
  ['a connection that breaks', 'break', [expect.closeTo(375, -3)]],
] as const)('%s is retried', async (_name, hindrance, expected) => {
  server.hinder = (_mapping, nth) => (nth === 1 ? hindrance : undefined)
  expect(counts(await run(fleetOf(1)))).toEqual({ created: 1 })
  expect(waits).toEqual(expected)
  expect(lines()).toHaveLength(2)
})

test('Retry-After may be a date', async () => {
  server.hinder = (_mapping, nth) =>
    nth === 1 ? { status: 503, headers: { 'retry-after': new Date(Date.now() + 500_000).toUTCString() } } : undefined
  await run(fleetOf(1))
  expect(waits[0]).toBeGreaterThan(100_000)
  expect(waits[0]).toBeLessThanOrEqual(500_000)
})

test('a platform that stays away stops the run, after growing waits', async () => {
  server.hinder = () => ({ status: 503, body: { error: 'unavailable' } })
  await expect(run(fleetOf(3), { concurrency: 1 })).rejects.toThrow(/does not answer \(unavailable \(503\)\): repeat the command/)
  expect(server.asked).toHaveLength(8)
  expect(waits.length).toBe(7)
  expect(waits.at(-1)).toBeGreaterThan(15_000)
  expect(lines()).toHaveLength(1)
  await expect(run(fleetOf(1), { base: 'http://127.0.0.1:1' })).rejects.toThrow(/does not answer \(.*ECONNREFUSED/)
})

test('a device that is limited until the end has failed, and the others continue', async () => {
  server.hinder = ({ external_id: id }) => (id === 'd-1' ? { status: 429, body: { error: 'too many' } } : undefined)
  const { failures, counts } = await run(fleetOf(3))
  expect(failures).toMatchObject([{ externalId: 'd-1', outcome: 'failed', error: 'too many (429)' }])
  expect(counts.get('created')).toBe(2)
})

test.each([
  [{ status: 400, body: { detail: 'a short\nkey' } }, 'refused', 'a short\\u000akey (400)'],
  [{ status: 500, body: '<html>' }, 'failed', '(500)'],
])('%j is reported in one line and does not stop others', async (answer, outcome, error) => {
  server.hinder = (_mapping, nth) => (nth === 1 ? answer : undefined)
  const { failures } = await run(fleetOf(2), { concurrency: 1 })
  expect(failures).toMatchObject([{ externalId: 'd-1', outcome, error }])
  expect(lines()).toHaveLength(3)
})

test.each([
  [401, /rejects this token/],
  [403, /is not allowed to create mappings/],
  [404, /no provisioning service at this address/],
  [201, /is not a provisioning service: check --url/],
])('%i for every device stops the run', async (status, says) => {
  server.hinder = () => ({ status, body: { hello: 'world' } })
  await expect(run(fleetOf(50), { concurrency: 2 })).rejects.toThrow(says)
  await expect(run(fleetOf(50), { concurrency: 2 })).rejects.toThrow(ToolError)
  expect(server.asked.length).toBeLessThan(10)
})

test('running requests are finished and reported when the run is stopped', async () => {
  const both = Promise.withResolvers<undefined>()
  server.hinder = async ({ external_id: id }) => {
    if (id === 'd-1') return both.promise
    setImmediate(() => setImmediate(() => both.resolve(undefined)))
    return { status: 401 }
  }
  await expect(run(fleetOf(9), { concurrency: 2 })).rejects.toThrow(ToolError)
  expect(lines()[1]).toEqual(expect.arrayContaining(['d-1', 'created']))
  expect(server.asked).toHaveLength(2)
})
