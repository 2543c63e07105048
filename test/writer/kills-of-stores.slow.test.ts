// The same as kills.slow.test.ts for stores without positions: whatever dies, each acknowledged message is stored once, or it is a dead letter.
// Rows are identified by their keys, and the writers resume at the group's committed offsets.

import { randomInt } from 'node:crypto'
import { expect, onTestFinished, test } from 'vitest'
import type { StoreName } from '../../roles/stores/store.ts'
import { firstOf, inDepth } from '../depth.ts'
import { describeUnlessMissing } from '../servers/describe-with.ts'
import { missingKafka } from '../servers/install/kafka.ts'
import type { FaultKind } from './faults.ts'
import { killRun } from './kills.ts'
import { startLoad } from './load.ts'
import { runSluice, untilReady } from './process.ts'
import { openSiteOn, shortWaits } from './site.ts'
import { missingStores, storeSites } from './stores/index.ts'
import { verdict } from './verdict.ts'

interface Store {
  readonly name: StoreName
  readonly kinds: readonly FaultKind[]
  readonly perSecond: number
}

/** Two topics and five faults each: every store crashes while writers die, and each other kind of fault strikes one of the three. The gate has the first three of each. */
const stores: readonly Store[] = [
  {
    name: 'widecolumn',
    kinds: ['writer killed', 'store crashed', 'broker killed', 'store half-open', 'log delayed'],
    perSecond: 1000,
  },
  {
    name: 'timeseries',
    kinds: ['writer killed', 'store crashed', 'worker ended', 'store cut', 'log half-open'],
    // Each record is a series of its own here.
    perSecond: 300,
  },
  {
    name: 'document',
    kinds: ['writer killed', 'store crashed', 'log cut', 'store delayed', 'broker killed'],
    // It is written in another language, and decodes every row: a third of the rate.
    perSecond: 300,
  },
]

for (const { name, kinds: allKinds, perSecond } of stores) {
  const kinds = firstOf(allKinds, 3)
  describeUnlessMissing(`kills: ${name}`, missingKafka() ?? missingStores[name](), () => {
    test('each kind of fault strikes while messages are in flight, and no message is lost or duplicated (npm run soak: 50 and more)', async () => {
      const seed = Number(process.env['SLUICE_TEST_SEED'] ?? randomInt(2 ** 31))
      const lines: string[] = []
      const report = await killRun({
        seed,
        rounds: 1,
        kinds,
        perSecond,
        partitions: [7, 2],
        openStore: storeSites[name],
        onProgress: line => void lines.push(line),
      })
      const said = `seed ${seed} (SLUICE_TEST_SEED)\n${lines.join('\n')}\n${JSON.stringify(report.counted)}`
      if (process.env['SLUICE_TEST_PROGRESS'] !== undefined) console.log(said)
      expect(report.faults, said).toEqual([])
      expect(report.strikes.map(({ kind }) => kind).toSorted(), said).toEqual(kinds.toSorted())
      const idle = report.strikes.filter(({ inFlight }) => inFlight <= 0)
      expect(idle, said).toEqual([])
      expect(report.counted.acknowledged, said).toBeGreaterThan(1_000)
      expect(report.counted.deadLetters, said).toBeGreaterThan(0)
    })

    inDepth(() => {
      test('a writer starts while its store is away, and continues when it is back; tools report that it is away', async () => {
        const site = await openSiteOn(storeSites[name], { partitions: 2, environment: { ...shortWaits, SVC_WORKERS_COUNT: '1' } })
        onTestFinished(() => site.close())
        site.store.proxy.refuse()
        site.store.proxy.cut()
        const writer = await site.start(0)
        await expect.poll(() => writer.metric('dependency_outage')).toBe(1)
        expect(writer.printed()).toMatch(/ is away .*: the start waits for it/)
        expect(await writer.ready()).toBe(503)
        const asked = await runSluice(['verify', name], {
          ...site.store.environment,
          SVC_LOG_BROKERS: site.kafka.brokers.join(),
          SVC_LOG_TOPIC: site.topic,
        })
        expect([asked.code, asked.printed]).toEqual([
          2,
          expect.stringMatching(/^(the store is unavailable: |InfluxDB at \S+ cannot be reached )[^\n]*\n$/),
        ])
        await site.store.proxy.heal()
        await untilReady(writer)
        const load = await startLoad(site.kafka.brokers, site.topic, { perSecond: 200, poison: false })
        await load.flowing
        const { faults } = await verdict(site, load)
        expect(faults).toEqual([])
      })
    })
  })
}

inDepth(() => {
  describeUnlessMissing('an unknown token', missingKafka() ?? missingStores.timeseries(), () => {
    test('stops the writer with one error, which does not contain it', async () => {
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
})
