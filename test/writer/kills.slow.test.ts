// Whatever dies, stands still or is cut off while messages flow: each acknowledged message is stored once, or it is a dead letter.

import { randomInt } from 'node:crypto'
import { expect, test } from 'vitest'
import { describeUnlessMissing } from '../servers/describe-with.ts'
import { missingKafka } from '../servers/kafka-install.ts'
import { missingPostgres } from '../servers/postgres-install.ts'
import { faultNames } from './faults.ts'
import { killRun } from './kills.ts'

describeUnlessMissing('kills', missingKafka() ?? missingPostgres(), () => {
  test('each kind of fault strikes while messages are in flight, and each message is where it should be (npm run soak: 50 and more)', async () => {
    const seed = Number(process.env['SLUICE_TEST_SEED'] ?? randomInt(2 ** 31))
    const lines: string[] = []
    const report = await killRun({ seed, rounds: 1, perSecond: 1500, onProgress: line => void lines.push(line) })
    const said = `seed ${seed} (SLUICE_TEST_SEED)\n${lines.join('\n')}\n${JSON.stringify(report.counted)}`
    if (process.env['SLUICE_TEST_PROGRESS'] !== undefined) console.log(said)
    expect(report.faults, said).toEqual([])
    expect(report.strikes.map(({ kind }) => kind).toSorted(), said).toEqual(faultNames.toSorted())
    expect(
      report.strikes.filter(({ inFlight }) => inFlight <= 0),
      said,
    ).toEqual([])
    expect(report.counted.acknowledged, said).toBeGreaterThan(10_000)
    expect(report.counted.deadLetters, said).toBeGreaterThan(50)
  }, 240_000)
})
