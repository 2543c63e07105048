// Writers of one release and of the next share a topic and a store: whichever dies, no message is lost or stored twice.

import { setTimeout as wait } from 'node:timers/promises'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import type { StoreName } from '../../roles/stores/store.ts'
import { describeUnlessMissing, whenRunning } from '../servers/describe-with.ts'
import { missingKafka } from '../servers/install/kafka.ts'
import { calm, usualLatencyMs } from '../writer/faults.ts'
import { startLoad } from '../writer/load.ts'
import { untilReady, type WriterProcess } from '../writer/process.ts'
import { openSiteOn, type Site, shortWaits } from '../writer/site.ts'
import { missingStores, storeSites } from '../writer/stores/index.ts'
import { verdict } from '../writer/verdict.ts'
import { refusal } from './refusal.ts'
import { type TwoReleases, twoReleases } from './two-releases.ts'

const stores: readonly StoreName[] = ['relational', 'widecolumn', 'timeseries', 'document']
/** Messages. Less than any store takes on a busy machine. */
const perSecond = 300

const [earlierPlace, laterPlace] = [0, 1]

let made: TwoReleases | undefined
const releases = whenRunning(() => made)
beforeAll(async () => {
  made = await twoReleases()
})
afterAll(() => made?.remove())

/** Kills the writer in that place while it has messages that are not stored. */
async function killAtWork(site: Site, place: number): Promise<void> {
  const writer = site.writers[place]!
  while (!((await writer.metric('buffer_events')) > 0)) await wait(10)
  await site.stop(place, 'SIGKILL')
}

/** What a writer that refuses its store has printed when it has ended, before or after it serves health. */
function ending(started: Promise<WriterProcess>): Promise<string> {
  return started.then(
    async writer => {
      await writer.ended
      return writer.printed()
    },
    (error: unknown) => String(error),
  )
}

describeUnlessMissing('writers of two releases', missingKafka(), () => {
  for (const name of stores)
    describeUnlessMissing(name, missingStores[name](), () => {
      test('store each message once between them, each killed at work, and the earlier one starts again unless the store was migrated', async () => {
        const site: Site = await openSiteOn(storeSites[name], {
          partitions: 12,
          places: 2,
          folders: [releases.earlier, releases.later],
          environment: { ...shortWaits, SVC_WORKERS_COUNT: '2', SVC_BATCH_AGE_MS: '20' },
        })
        onTestFinished(() => site.close())
        await calm(site.store.proxy, usualLatencyMs)
        await untilReady(await site.start(earlierPlace))
        const load = await startLoad(site.kafka.brokers, site.topic, { perSecond, store: name })
        onTestFinished(() => load.stop())
        await load.flowing
        await untilReady(await site.start(laterPlace))
        await killAtWork(site, laterPlace)
        await untilReady(await site.start(laterPlace))
        await killAtWork(site, earlierPlace)
        // Rolled back: under load, beside the later one.
        if (name === 'relational' && releases.isMigrated('sinks/postgres/migrations'))
          expect(await ending(site.start(earlierPlace))).toMatch(refusal)
        else await untilReady(await site.start(earlierPlace))
        expect(await site.untilStored(new Map(load.ends()))).toBe(true)

        const { counted, faults } = await verdict(site, load)
        expect(
          faults.filter(fault => !refusal.test(fault)),
          JSON.stringify(counted),
        ).toEqual([])
        expect(counted.acknowledged).toBeGreaterThan(1_000)
        expect(counted.deadLetters).toBeGreaterThan(0)
      })
    })
})
