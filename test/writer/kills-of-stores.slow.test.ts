// The same as kills.slow.test.ts for the stores that keep no positions: whatever dies, each acknowledged message is stored once, or it is a
// dead letter. Their rows are known by their keys, and the writers go on at what their group has committed.

import { randomInt } from 'node:crypto'
import { expect, onTestFinished, test } from 'vitest'
import type { StoreName } from '../../roles/stores/store.ts'
import { missingCassandra } from '../servers/cassandra.ts'
import { describeUnlessMissing } from '../servers/describe-with.ts'
import { missingInflux } from '../servers/influx.ts'
import { missingKafka } from '../servers/kafka-install.ts'
import { missingMongo } from '../servers/mongo.ts'
import { faultNames } from './faults.ts'
import { killRun } from './kills.ts'
import { startLoad } from './load.ts'
import { runSluice, untilReady } from './process.ts'
import { openSiteOn, shortWaits } from './site.ts'
import { storeSites } from './stores/index.ts'
import { verdict } from './verdict.ts'

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

    test('a writer starts while its store is away, goes on when it is there, and stores; tools say in a sentence that it is away', async () => {
      const site = await openSiteOn(storeSites[name], { partitions: 2, environment: { ...shortWaits, SVC_WORKERS_COUNT: '1' } })
      onTestFinished(() => site.close())
      site.store.proxy.refuse()
      site.store.proxy.cut()
      const writer = await site.start(0)
      await expect.poll(() => writer.metric('dependency_outage'), { timeout: 60_000 }).toBe(1)
      expect(writer.printed()).toMatch(/ is away .*: the start waits for it/)
      expect(await writer.ready()).toBe(503)
      const asked = await runSluice(['verify', name], {
        ...site.store.environment,
        SVC_LOG_BROKERS: site.kafka.brokers.join(),
        SVC_LOG_TOPIC: site.topic,
      })
      expect([asked.code, asked.printed]).toEqual([
        2,
        expect.stringMatching(/^(the store cannot be asked: |InfluxDB at \S+ cannot be reached )[^\n]*\n$/),
      ])
      await site.store.proxy.heal()
      await untilReady(writer)
      const load = await startLoad(site.kafka.brokers, site.topic, { perSecond: 200, poison: false })
      await load.flowing
      const { faults } = await verdict(site, load)
      expect(faults).toEqual([])
    }, 240_000)
  })
}

describeUnlessMissing('a token that is not known', missingKafka() ?? missingInflux(), () => {
  test('stops the writer with one sentence, and does not show itself', async () => {
    const site = await openSiteOn(storeSites.timeseries, { partitions: 1, environment: { ...shortWaits, SVC_WORKERS_COUNT: '1' } })
    onTestFinished(() => site.close())
    const environment = {
      ...site.store.environment,
      SVC_TIMESERIES_TOKEN: 'a-token-of-nobody',
      SVC_LOG_BROKERS: site.kafka.brokers.join(),
      SVC_LOG_TOPIC: site.topic,
    }
    const { code, printed } = await runSluice(['writer', 'timeseries', '--port', '0'], {
      ...environment,
      SVC_INTERNAL_LISTEN: '127.0.0.1:0',
    })
    expect([code, printed]).toEqual([1, expect.stringMatching(/^.*unauthorized.*store\.token.*$/m)])
    expect(printed).not.toMatch(/a-token-of-nobody|a worker died/)
  })
})
