// A writer's metrics: only on the internal port, with the lag of each partition, and the messages that the log deleted unread.

import { expect, onTestFinished, test } from 'vitest'
import { positionsOf } from '../pipeline/positions.ts'
import { describeUnlessMissing } from '../servers/describe-with.ts'
import { missingKafka } from '../servers/install/kafka.ts'
import { missingPostgres } from '../servers/install/postgres.ts'
import { undocumentedMetrics } from '../tidy/metrics.ts'
import { startLoad } from './load.ts'
import { untilReady, type WriterProcess } from './process.ts'
import { openSite, type Site, shortWaits, writerName } from './site.ts'
import type { RelationalSite } from './stores/relational.ts'

async function openTestSite(options: Parameters<typeof openSite>[0] = {}): Promise<Site<RelationalSite>> {
  const site = await openSite({ ...options, environment: { ...shortWaits, SVC_WORKERS_COUNT: '1', ...options.environment } })
  onTestFinished(() => site.close())
  return site
}

async function metricsOf({ internalUrl }: WriterProcess): Promise<string> {
  return await (await fetch(`${internalUrl}/metrics`)).text()
}

const all = [0, 1, 2, 3, 4, 5]
const nothing = new Map(all.map(partition => [partition, 0]))

/** In messages, by partition. */
async function lagOf(writer: WriterProcess): Promise<Map<number, number>> {
  const lags = [...(await writer.metrics('consumer_lag_messages'))].filter(([labels]) => labels.includes(`component_id="${writerName}"`))
  return new Map(lags.map(([labels, messages]) => [Number(/partition="(\d+)"/.exec(labels)![1]), messages]))
}

describeUnlessMissing('health and metrics of a writer', missingKafka() ?? missingPostgres(), () => {
  test('both ports serve health, only the internal one metrics', async () => {
    const writer = await (await openTestSite()).start(0)
    await untilReady(writer)
    const answers = async (url: string): Promise<number[]> =>
      Promise.all(['/livez', '/readyz', '/health', '/metrics'].map(async path => (await fetch(url + path)).status))
    expect(await answers(writer.url)).toEqual([200, 200, expect.any(Number), 404])
    expect(await answers(writer.internalUrl)).toEqual([200, 200, expect.any(Number), 200])
    // Its own, and those of its workers.
    expect(await metricsOf(writer)).toMatch(/^process_cpu_user_seconds_total /m)
    expect(await metricsOf(writer)).toMatch(/^# TYPE component_sent_events_total counter$/m)
    expect(undocumentedMetrics(await metricsOf(writer))).toEqual([])
  })

  test('each writer reports the lag of every partition, also of those that the other one has', async () => {
    const site = await openTestSite({ places: 2, partitions: 6 })
    const writers = [await site.start(0), await site.start(1)]
    for (const writer of writers) await untilReady(writer)
    await site.tools.appendTexts(site.topic, ['no message'], 5)
    await site.tools.appendTexts(site.topic, ['no message', 'no message'], 0)
    // Before they are seen nothing waits either.
    await expect.poll(() => site.tools.committed(site.topic, site.group)).toEqual(positionsOf({ 0: 2, 5: 1 }))
    await expect.poll(() => Promise.all(writers.map(lagOf))).toEqual([nothing, nothing])
    // Each has half of what waits now.
    await site.store.postgres.kill()
    for (const partition of all) await site.tools.appendTexts(site.topic, ['no message'], partition)
    const one = new Map(all.map(partition => [partition, 1]))
    await expect.poll(() => Promise.all(writers.map(lagOf))).toEqual([one, one])
  })

  test('partitions that are taken over while the store is away report their lag, which grows', async () => {
    const site = await openTestSite({ places: 2, partitions: 6 })
    const writers = [await site.start(0), await site.start(1)]
    for (const writer of writers) await untilReady(writer)
    const load = await startLoad(site.kafka.brokers, site.topic, { perSecond: 300, poison: false })
    await expect.poll(async () => (await site.tools.committed(site.topic, site.group)).size).toBe(all.length)
    await site.store.postgres.kill()
    expect(await site.stop(1, 'SIGKILL')).toBe('SIGKILL')
    await expect.poll(async () => [...(await lagOf(writers[0]!)).keys()].toSorted((left, right) => left - right)).toEqual(all)
    await expect.poll(async () => Math.min(...(await lagOf(writers[0]!)).values())).toBeGreaterThan(300)
    await load.stop()
  })

  test('messages that the log deleted unread are counted, in the metrics and in the store', async () => {
    const site = await openTestSite({ environment: { SVC_LOG_ACCEPT_LOST: 'true' } })
    const position = (): Promise<{ next: number; lost: number }[]> =>
      site.store.query('SELECT next_offset::int AS next, lost::int AS lost FROM sluice.offsets')
    const lost = async (writer: WriterProcess): Promise<(string | undefined)[]> =>
      [...(await metricsOf(writer)).matchAll(/^component_discarded_events_total\{.*reason="deleted-unread".*\} (\d+)$/gm)].map(
        ([, count]) => count,
      )
    await untilReady(await site.start(0))
    await site.tools.appendTexts(site.topic, ['no message'])
    await expect.poll(position).toEqual([{ next: 1, lost: 0 }])
    expect(await site.stop(0)).toBe(0)

    await site.tools.appendTexts(site.topic, ['nobody', 'reads', 'these'])
    await site.tools.deleteBelow(site.topic, 4)
    const writer = await site.start(0)
    await site.tools.appendTexts(site.topic, ['no message'])
    await expect.poll(position).toEqual([{ next: 5, lost: 3 }])
    await expect.poll(() => lost(writer)).toEqual(['3'])
  })
})
