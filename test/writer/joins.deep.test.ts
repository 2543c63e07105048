// Writers join and leave the group while messages flow: progress continues, no commit is ahead of the store, nothing is lost or stored twice.

import { randomInt } from 'node:crypto'
import { expect, test } from 'vitest'
import { describeUnlessMissing } from '../servers/describe-with.ts'
import { missingKafka } from '../servers/install/kafka.ts'
import { missingPostgres } from '../servers/install/postgres.ts'
import { joinRun } from './joins.ts'

describeUnlessMissing('members that come and go', missingKafka() ?? missingPostgres(), () => {
  test.each([false, true])(
    'with a change every 4 s the store advances after each, and no commit is ever ahead of it (each of one of two topics: %s; npm run soak: every 30 s)',
    async isApart => {
      const seed = Number(process.env['SLUICE_TEST_SEED'] ?? randomInt(2 ** 31))
      const lines: string[] = []
      const report = await joinRun({
        seed,
        everyMs: 4_000,
        changes: 8,
        perSecond: 1000,
        isApart,
        onProgress: line => void lines.push(line),
      })
      const said = `seed ${seed} (SLUICE_TEST_SEED)\n${lines.join('\n')}\n${JSON.stringify({ looks: report.looks, ...report.counted })}`
      if (process.env['SLUICE_TEST_PROGRESS'] !== undefined) console.log(said)
      expect(report.faults, said).toEqual([])
      expect(Math.min(...report.changes.map(({ progress }) => progress)), said).toBeGreaterThan(0)
      // Neither comparison nor load was empty.
      expect(report.looks, said).toBeGreaterThan(report.changes.length)
      expect(report.counted.acknowledged, said).toBeGreaterThan(1_000)
    },
  )
})
