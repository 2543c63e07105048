// The same as kills.slow.test.ts for the stores that keep no positions: whatever dies, each acknowledged message is stored once, or it is a
// dead letter. Their rows are known by their keys, and the writers go on at what their group has committed.

import { randomInt } from 'node:crypto'
import { expect, test } from 'vitest'
import type { StoreName } from '../../roles/stores/store.ts'
import { missingCassandra } from '../servers/cassandra.ts'
import { describeUnlessMissing } from '../servers/describe-with.ts'
import { missingInflux } from '../servers/influx.ts'
import { missingKafka } from '../servers/kafka-install.ts'
import { missingMongo } from '../servers/mongo.ts'
import { faultNames } from './faults.ts'
import { killRun } from './kills.ts'
import { storeSites } from './stores/index.ts'

interface Store {
  readonly name: StoreName
  readonly missing: () => string | undefined
  readonly perSecond: number
  readonly acknowledgedMin: number
}

const stores: readonly Store[] = [
  { name: 'widecolumn', missing: missingCassandra, perSecond: 1000, acknowledgedMin: 8_000 },
  { name: 'timeseries', missing: missingInflux, perSecond: 1000, acknowledgedMin: 8_000 },
  // It is written in another language, and decodes every row: a third of the rate.
  { name: 'document', missing: missingMongo, perSecond: 300, acknowledgedMin: 3_000 },
]

for (const { name, missing, perSecond, acknowledgedMin } of stores) {
  describeUnlessMissing(`kills: ${name}`, missingKafka() ?? missing(), () => {
    test('each kind of fault strikes while messages are in flight, and each message is where it should be', async () => {
      const seed = Number(process.env['SLUICE_TEST_SEED'] ?? randomInt(2 ** 31))
      const lines: string[] = []
      const report = await killRun({ seed, rounds: 1, perSecond, openStore: storeSites[name], onProgress: line => void lines.push(line) })
      const said = `seed ${seed} (SLUICE_TEST_SEED)\n${lines.join('\n')}\n${JSON.stringify(report.counted)}`
      if (process.env['SLUICE_TEST_PROGRESS'] !== undefined) console.log(said)
      expect(report.faults, said).toEqual([])
      expect(report.strikes.map(({ kind }) => kind).toSorted(), said).toEqual(faultNames.toSorted())
      const idle = report.strikes.filter(({ inFlight }) => inFlight <= 0)
      expect(idle, said).toEqual([])
      expect(report.counted.acknowledged, said).toBeGreaterThan(acknowledgedMin)
      expect(report.counted.deadLetters, said).toBeGreaterThan(acknowledgedMin / 200)
    }, 400_000)
  })
}
