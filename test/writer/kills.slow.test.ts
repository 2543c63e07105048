// Whatever dies, stands still or is cut off while messages flow: each acknowledged message is stored once, or it is a dead letter.

import { randomInt } from 'node:crypto'
import { expect, test } from 'vitest'
import { describeUnlessMissing } from '../servers/describe-with.ts'
import { missingKafka } from '../servers/kafka-install.ts'
import { missingPostgres } from '../servers/postgres-install.ts'
import { type FaultKind, faultNames } from './faults.ts'
import { type KillPlan, killRun } from './kills.ts'

/** What a client of Kafka has to do with: its own end, and the log's. */
const kindsOfLog: readonly FaultKind[] = ['worker ended', 'writer killed', 'broker killed', 'log cut', 'log delayed', 'log half-open']

interface Round {
  readonly client: NonNullable<KillPlan['client']>
  readonly kinds: readonly FaultKind[]
  readonly acknowledgedMin: number
  readonly deadLettersMin: number
}

const rounds: readonly Round[] = [
  { client: 'platformatic', kinds: faultNames, acknowledgedMin: 10_000, deadLettersMin: 50 },
  { client: 'kafkajs', kinds: kindsOfLog, acknowledgedMin: 5_000, deadLettersMin: 25 },
]

describeUnlessMissing('kills', missingKafka() ?? missingPostgres(), () => {
  test.each(rounds)(
    'each kind of fault strikes writers on $client while messages are in flight, and each message is where it should be (npm run soak: 50 and more)',
    async ({ client, kinds, acknowledgedMin, deadLettersMin }) => {
      const seed = Number(process.env['SLUICE_TEST_SEED'] ?? randomInt(2 ** 31))
      const lines: string[] = []
      const report = await killRun({ seed, rounds: 1, kinds, client, perSecond: 1500, onProgress: line => void lines.push(line) })
      const said = `${client}, seed ${seed} (SLUICE_TEST_SEED)\n${lines.join('\n')}\n${JSON.stringify(report.counted)}`
      if (process.env['SLUICE_TEST_PROGRESS'] !== undefined) console.log(said)
      expect(report.faults, said).toEqual([])
      expect(report.strikes.map(({ kind }) => kind).toSorted(), said).toEqual(kinds.toSorted())
      expect(
        report.strikes.filter(({ inFlight }) => inFlight <= 0),
        said,
      ).toEqual([])
      expect(report.counted.acknowledged, said).toBeGreaterThan(acknowledgedMin)
      expect(report.counted.deadLetters, said).toBeGreaterThan(deadLettersMin)
    },
    240_000,
  )
})
