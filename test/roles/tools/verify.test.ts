// The output of `sluice verify` for a report, and its exit code.

import { afterEach, expect, test, vi } from 'vitest'
import { ToolError } from '../../../bin/streams.ts'
import type { PartitionReport } from '../../../pipeline/audit/partition.ts'
import type { VerifyReport } from '../../../pipeline/audit/verify.ts'
import { MessageRefusedError } from '../../../pipeline/log.ts'
import { answered, explained } from '../../../roles/tools/failure.ts'
import { verifyWords } from '../../../roles/tools/verify.ts'

function partition(number: number, lost: number, more: Partial<PartitionReport> = {}): PartitionReport {
  const ledger = { nextOffset: 9, received: 4, stored: 4, empty: 0, filtered: 0, skipped: 5, duplicate: 0, deadLettered: 0, lost }
  return {
    partition: number,
    checked: { from: 5, to: 9 },
    unchecked: 0,
    recount: {
      received: 4,
      stored: 4,
      erased: 0,
      empty: 0,
      filtered: 0,
      dead_lettered: 0,
      skipped: 0,
      deleted: 0,
      deleted_stored: 0,
      open: 0,
      replayed: 0,
      partial: 0,
    },
    ledger,
    ledger_covers_more: true,
    in_flight: 0,
    faults: {},
    first: [],
    holds: true,
    ...more,
  }
}

const report = (partitions: readonly PartitionReport[]): VerifyReport => ({
  topic: 'messages',
  writer: 'relational',
  log: 1,
  contents: false,
  partitions,
  holds: partitions.every(({ holds }) => holds),
})

test('messages that the log deleted unread are lost: the ledger and the last line say so', () => {
  const words = verifyWords(report([partition(0, 5), partition(1, 2), partition(2, 0)]))
  expect(words).toContain('duplicate 0; skipped 5, lost 5; includes messages that could not be compared\n')
  expect(words).toContain('duplicate 0; skipped 5, lost 2; includes messages')
  expect(words).toContain('duplicate 0; skipped 5; includes messages')
  expect(words).toMatch(
    /\nok: 12 messages in 3 partitions, 0 more in flight; 7 lost: deleted from the log unread, or skipped by the writer\n$/,
  )
})

test('the last line says whether columns were compared', () => {
  expect(verifyWords(report([partition(0, 0)]))).toMatch(/\nok: 4 messages in 1 partition, 0 more in flight\n$/)
  expect(verifyWords({ ...report([partition(0, 0)]), contents: true })).toMatch(
    /\nok: 4 messages in 1 partition, with every column of their rows, 0 more in flight\n$/,
  )
})

test('the dead-lettered messages with some rows in the store are counted', () => {
  const recount = { ...partition(0, 0).recount, stored: 1, dead_lettered: 3, partial: 2 }
  expect(verifyWords(report([partition(0, 0, { recount })]))).toContain(
    'of the dead-lettered, 2 have some rows in the store, which rejected others',
  )
})

test('without lost messages, none are mentioned', () => {
  expect(verifyWords(report([partition(0, 0)]))).not.toContain('lost')
})

test('they are mentioned beside faults, too', () => {
  const first = [{ kind: 'replay missing', id: '1-0-7', detail: 'it was replayed' }] as const
  const words = verifyWords(report([partition(0, 5, { faults: { 'replay missing': 1 }, first, holds: false })]))
  expect(words).toContain('  WRONG    replay missing 1\n           1-0-7 replay missing: it was replayed\n')
  expect(words).toMatch(/\nfaults in 1 of 1 partitions; 5 lost: deleted from the log unread, or skipped by the writer\n$/)
})

afterEach(() => {
  process.exitCode = undefined
  vi.restoreAllMocks()
})

test.each([
  [0, async () => true],
  [1, async () => false],
  [2, () => Promise.reject(new ToolError('no'))],
  [2, () => Promise.reject(new MessageRefusedError('too large'))],
  [2, () => Promise.reject(new TypeError('a defect'))],
])('the exit code %i follows from the result', async (code, work) => {
  vi.spyOn(console, 'error').mockReturnValue()
  await answered(work)
  expect(process.exitCode).toBe(code)
})

test('a message that a log refuses is a clear error, not a bug', async () => {
  const work = explained(() => Promise.reject(new MessageRefusedError('it is too large')))
  await expect(work).rejects.toThrow(ToolError)
  await expect(work).rejects.toThrow('it is too large')
})
