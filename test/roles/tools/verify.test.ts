// What `sluice verify` prints of a report, and what its exit code says.

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
    recount: { received: 4, stored: 4, empty: 0, filtered: 0, dead_lettered: 0, skipped: 0, replayed: 0 },
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
  partitions,
  holds: partitions.every(({ holds }) => holds),
})

test('messages that the log deleted unread are lost: the books say so, and the last line', () => {
  const words = verifyWords(report([partition(0, 5), partition(1, 2), partition(2, 0)]))
  expect(words).toContain('duplicate 0; skipped 5, lost 5; they cover more than could be compared\n')
  expect(words).toContain('duplicate 0; skipped 5, lost 2; they cover')
  expect(words).toContain('duplicate 0; skipped 5; they cover')
  expect(words).toMatch(/\nit holds: 12 messages in 3 partitions, 0 more in flight; lost 7, which the log deleted unread\n$/)
})

test('where none are lost, nothing is said of it', () => {
  expect(verifyWords(report([partition(0, 0)]))).not.toContain('lost')
})

test('they are said where it does not hold, too, beside what is wrong', () => {
  const first = [{ kind: 'replay missing', id: '1-0-7', detail: 'it was replayed' }] as const
  const words = verifyWords(report([partition(0, 5, { faults: { 'replay missing': 1 }, first, holds: false })]))
  expect(words).toContain('  WRONG    replay missing 1\n           1-0-7 replay missing: it was replayed\n')
  expect(words).toMatch(/\nit does not hold in 1 of 1 partitions; lost 5, which the log deleted unread\n$/)
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
])('the exit code %i is what came of it', async (code, work) => {
  vi.spyOn(console, 'error').mockReturnValue()
  await answered(work)
  expect(process.exitCode).toBe(code)
})

test('a message that a log refuses is a sentence, not a defect', async () => {
  const work = explained(() => Promise.reject(new MessageRefusedError('it is too large')))
  await expect(work).rejects.toThrow(ToolError)
  await expect(work).rejects.toThrow('it is too large')
})
