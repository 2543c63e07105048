// Whatever bytes a message has, a whole writer goes on: the message is stored or a dead letter, and tools can read it.

import { randomInt } from 'node:crypto'
import { expect, test } from 'vitest'
import { isDeep } from '../../depth.ts'
import { describeUnlessMissing } from '../../servers/describe-with.ts'
import { missingKafka } from '../../servers/install/kafka.ts'
import { missingPostgres } from '../../servers/install/postgres.ts'
import { hostileRun } from './hostile.ts'

describeUnlessMissing('hostile messages', missingKafka() ?? missingPostgres(), () => {
  test('each is stored or a dead letter, sluice verify agrees, and no worker ends (npm run soak: ten minutes)', async () => {
    const seed = Number(process.env['SLUICE_TEST_SEED'] ?? randomInt(2 ** 31))
    const lines: string[] = []
    const report = await hostileRun({ seed, rounds: isDeep ? 3 : 1, batchesPerRound: 60, onProgress: line => void lines.push(line) })
    const said = `seed ${seed} (SLUICE_TEST_SEED)\n${lines.join('\n')}`
    if (process.env['SLUICE_TEST_PROGRESS'] !== undefined) console.log(said)
    expect(report.faults, said).toEqual([])
    expect(report.stored, said).toBeGreaterThan(10)
    expect(report.deadLettered, said).toBeGreaterThan(10)
  })
})
