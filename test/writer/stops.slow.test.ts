// SIGTERM in the middle of what may hold up a stop: the writer ends in time and in good order, leaves its group, and nothing is lost or doubled.

import { setTimeout as wait } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { describeUnlessMissing } from '../servers/describe-with.ts'
import { missingKafka } from '../servers/kafka-install.ts'
import { missingPostgres } from '../servers/postgres-install.ts'
import { type Load, startLoad } from './load.ts'
import { untilReady, type WriterProcess } from './process.ts'
import { openSite, type Site, shortWaits, sumOf, writerName } from './site.ts'
import type { RelationalSite } from './stores/relational.ts'
import { verdict } from './verdict.ts'

/** A stop that nothing holds up; and one that has to give up what is in flight. */
const easyStopMsMax = 2_500
const stopMsMax = 5_000

/** A session that outlasts the test: a member that has not left the group is seen in it. */
const environment = {
  ...shortWaits,
  SVC_WORKERS_COUNT: '2',
  SVC_CONSUMER_SESSION_MS: '30000',
  SVC_CONSUMER_REBALANCE_MS: '30000',
}

async function openTestSite(): Promise<{ site: Site<RelationalSite>; writer: WriterProcess }> {
  const site = await openSite({ environment })
  onTestFinished(() => site.close())
  const writer = await site.start(0)
  await untilReady(writer)
  for (const group of groups) while (!(await isComplete(site, group))) await wait(20)
  return { site, writer }
}

/** A worker is in both, one for each of its flows. */
const groups = [writerName, `${writerName}.replays`]

async function membersOf({ tools }: Site<RelationalSite>): Promise<number> {
  const described = await tools.admin.describeGroups(groups)
  return described.groups.reduce((sum, { members }) => sum + members.length, 0)
}

/** Every worker has its share of it. */
async function isComplete({ tools }: Site<RelationalSite>, group: string): Promise<boolean> {
  const described = await tools.admin.describeGroups([group])
  return described.groups.every(({ state, members }) => state === 'Stable' && members.length === Number(environment.SVC_WORKERS_COUNT))
}

/** How long it took, and how it ended. */
async function stopped(site: Site<RelationalSite>): Promise<{ code: number | string; ms: number; members: number }> {
  const startedMs = performance.now()
  const code = await site.stop(0)
  const ms = performance.now() - startedMs
  return { code, ms, members: await membersOf(site) }
}

async function startFlow(site: Site<RelationalSite>): Promise<Load> {
  const load = await startLoad(site.kafka.brokers, site.topic, { perSecond: 500, poison: false })
  while (sumOf(await site.positions()) === 0) await wait(50)
  return load
}

/** Another one takes over, and everything is where it should be. */
async function expectAllStored(site: Site<RelationalSite>, load: Load): Promise<void> {
  await site.start(0)
  const { counted, faults } = await verdict(site, load)
  expect(faults).toEqual([])
  expect(counted.deadLetters).toBe(0)
}

describeUnlessMissing('stops', missingKafka() ?? missingPostgres(), () => {
  test('with messages flowing it stores what it took, and leaves', async () => {
    const { site } = await openTestSite()
    const load = await startFlow(site)
    const { code, ms, members } = await stopped(site)
    expect({ code, members }).toEqual({ code: 0, members: 0 })
    expect(ms).toBeLessThan(easyStopMsMax)
    await expectAllStored(site, load)
  })

  test('during the upkeep of the store, which takes longer than a stop may, it does not wait for that', async () => {
    const { site, writer } = await openTestSite()
    const [{ name }] = (await site.store.query<{ name: string }>(
      `SELECT inhrelid::regclass::text AS name FROM pg_inherits WHERE inhparent = 'public.messages'::regclass AND inhrelid::regclass::text ~ '\\d$' ORDER BY name DESC LIMIT 1`,
    )) as [{ name: string }]
    // A month is missing, and to make it takes long: an upkeep that waits for a lock gives up after some seconds.
    await site.store.query(
      `DROP TABLE ${name};
       CREATE FUNCTION slowly() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(60); END $$;
       CREATE EVENT TRIGGER slowly ON ddl_command_start WHEN TAG IN ('CREATE TABLE') EXECUTE FUNCTION slowly()`,
    )
    writer.beginUpkeep()
    const underWay = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND application_name = 'sluice-writer-relational'"
    while ((await site.store.query(underWay)).length === 0) await wait(20)
    const { code, ms, members } = await stopped(site)
    expect({ code, members }).toEqual({ code: 0, members: 0 })
    expect(ms).toBeLessThan(easyStopMsMax)
    expect(writer.printed()).not.toMatch(/did not stop in time|did not close|took too long/)
  })

  test('with the store half-open it gives up what is in flight in time', async () => {
    const { site, writer } = await openTestSite()
    const load = await startFlow(site)
    site.store.proxy.halfOpen()
    const before = sumOf(load.ends())
    while (sumOf(load.ends()) < before + 500) await wait(20)
    const { code, ms, members } = await stopped(site)
    expect({ code, members }, writer.printed().slice(-2000)).toEqual({ code: 0, members: 0 })
    expect(ms).toBeLessThan(stopMsMax)
    await site.store.proxy.heal()
    site.store.proxy.cut()
    await expectAllStored(site, load)
  })

  test('with the store away it gives up what is in flight in time', async () => {
    const { site, writer } = await openTestSite()
    const load = await startFlow(site)
    await site.store.postgres.kill()
    await untilReady(writer, 503)
    const { code, ms, members } = await stopped(site)
    expect({ code, members }, writer.printed().slice(-2000)).toEqual({ code: 0, members: 0 })
    expect(ms).toBeLessThan(stopMsMax)
    await site.store.postgres.restart()
    await expectAllStored(site, load)
  })
})
