// What a writer tells of itself, and where: metrics on the internal port alone, and what the log deleted unread in the name of its flow.

import { setTimeout as wait } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { describeUnlessMissing } from '../servers/describe-with.ts'
import { missingKafka } from '../servers/kafka-install.ts'
import { missingPostgres } from '../servers/postgres-install.ts'
import { untilReady, type WriterProcess } from './process.ts'
import { openSite, type Site, shortWaits, writerName } from './site.ts'
import type { RelationalSite } from './stores/relational.ts'

async function openTestSite(): Promise<Site<RelationalSite>> {
  const site = await openSite({ environment: { ...shortWaits, SVC_WORKERS_COUNT: '1', SVC_LOG_ACCEPT_LOST: 'true' } })
  onTestFinished(() => site.close())
  return site
}

async function metricsOf({ internalUrl }: WriterProcess): Promise<string> {
  return await (await fetch(`${internalUrl}/metrics`)).text()
}

/** Of each flow that lost messages: how many. */
async function lostOf(writer: WriterProcess): Promise<Record<string, number>> {
  const lines = (await metricsOf(writer)).matchAll(/^component_discarded_events_total\{(.*reason="deleted-unread".*)\} (\d+)$/gm)
  return Object.fromEntries([...lines].map(([, labels, value]) => [/component_id="([^"]*)"/.exec(labels!)![1]!, Number(value)]))
}

describeUnlessMissing('what a writer tells', missingKafka() ?? missingPostgres(), () => {
  test('health is told on both ports, metrics on the internal one alone', async () => {
    const writer = await (await openTestSite()).start(0)
    await untilReady(writer)
    const answers = async (url: string): Promise<number[]> =>
      Promise.all(['/livez', '/readyz', '/health', '/metrics'].map(async path => (await fetch(url + path)).status))
    expect(await answers(writer.url)).toEqual([200, 200, expect.any(Number), 404])
    expect(await answers(writer.internalUrl)).toEqual([200, 200, expect.any(Number), 200])
    // Its own, and those of its workers.
    expect(await metricsOf(writer)).toMatch(/^process_cpu_user_seconds_total /m)
    expect(await metricsOf(writer)).toMatch(/^# TYPE component_sent_events_total counter$/m)
  })

  test('replays that the log deleted unread are counted in the flow of replays, and not among the messages', async () => {
    const site = await openTestSite()
    const replays = `${site.topic}.replays.${writerName}`
    const places = (): Promise<{ name: string; next: number; lost: number }[]> =>
      site.store.query(
        'SELECT name, next_offset::int AS next, offsets.lost::int AS lost FROM sluice.offsets JOIN sluice.logs ON log = number ORDER BY name',
      )
    const untilAt = async (next: number): Promise<void> => {
      while (!(await places()).some(place => place.name === replays && place.next === next)) await wait(20)
    }
    await untilReady(await site.start(0))
    await site.tools.appendTexts(replays, ['no replay'])
    await untilAt(1)
    expect(await site.stop(0)).toBe(0)

    await site.tools.appendTexts(replays, ['nobody', 'reads', 'these'])
    await site.tools.deleteBelow(replays, 4)
    const writer = await site.start(0)
    await site.tools.appendTexts(replays, ['no replay'])
    await untilAt(5)
    await expect.poll(() => lostOf(writer), { timeout: 10_000 }).toEqual({ [`${writerName}.replays`]: 3 })
    expect(await places()).toEqual([{ name: replays, next: 5, lost: 3 }])
  })
})
