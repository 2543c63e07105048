// A slow store and many waiting messages: the writer reads only as much as fits, and its memory stays flat.

import { expect, test } from 'vitest'
import { describeUnlessMissing } from '../servers/describe-with.ts'
import { missingKafka } from '../servers/install/kafka.ts'
import { missingPostgres } from '../servers/install/postgres.ts'
import { memoryRun } from './memory.ts'

describeUnlessMissing('memory', missingKafka() ?? missingPostgres(), () => {
  test('with 300,000 messages waiting and a store that takes a batch a second, two workers stay under 350 MiB (npm run soak: 2 million)', async () => {
    const report = await memoryRun({ messages: 300_000, workers: 2, seconds: 15 })
    const said = JSON.stringify(report)
    if (process.env['SLUICE_TEST_PROGRESS'] !== undefined) console.log(said)
    expect(report.peakMib, said).toBeLessThan(350)
    // In this short time the heap may still settle; the long run allows half as much.
    expect(report.growthMib, said).toBeLessThan(20)
    // It makes progress, slowly.
    expect(report.settled, said).toBeGreaterThan(1_000)
    expect(report.settled, said).toBeLessThan(250_000)
    expect(report.batchesPerSecond, said).toBeLessThan(6)
  })
})
