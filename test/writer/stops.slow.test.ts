// SIGTERM during work that may delay a stop: the writer ends in time and cleanly, leaves its group, and nothing is lost or duplicated.

import { setTimeout as wait } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { inDepth } from '../depth.ts'
import { describeUnlessMissing } from '../servers/describe-with.ts'
import { missingKafka } from '../servers/install/kafka.ts'
import { missingPostgres } from '../servers/install/postgres.ts'
import { promptStop } from '../up/platform.ts'
import { type Load, startLoad } from './load.ts'
import { untilReady, type WriterProcess } from './process.ts'
import { openSite, type Site, shortWaits, sumOf } from './site.ts'
import type { RelationalSite } from './stores/relational.ts'
import { verdict } from './verdict.ts'

/** A session longer than the test, so that a member that has not left the group is still visible. */
const environment = {
  ...shortWaits,
  ...promptStop,
  SVC_WORKERS_COUNT: '2',
  SVC_CONSUMER_SESSION_MS: '30000',
  SVC_CONSUMER_REBALANCE_MS: '30000',
}

async function openTestSite(): Promise<{ site: Site<RelationalSite>; writer: WriterProcess }> {
  const site = await openSite({ environment })
  onTestFinished(() => site.close())
  const writer = await site.start(0)
  await untilReady(writer)
  while (!(await isComplete(site))) await wait(20)
  return { site, writer }
}

async function membersOf({ tools, group }: Site<RelationalSite>): Promise<number> {
  const described = await tools.admin.describeGroups([group])
  return described.groups.reduce((sum, { members }) => sum + members.length, 0)
}

/** Whether every worker has a share of the topic. */
async function isComplete({ tools, group }: Site<RelationalSite>): Promise<boolean> {
  const described = await tools.admin.describeGroups([group])
  return described.groups.every(({ state, members }) => state === 'Stable' && members.length === Number(environment.SVC_WORKERS_COUNT))
}

/** How it ended: with 0 only within the five seconds of a stop, after which the writer itself ends with 1. */
async function stopped(site: Site<RelationalSite>): Promise<{ code: number | string; members: number }> {
  const code = await site.stop(0)
  return { code, members: await membersOf(site) }
}

async function startFlow(site: Site<RelationalSite>): Promise<Load> {
  const load = await startLoad(site.kafka.brokers, site.topic, { perSecond: 500, poison: false })
  while (sumOf(await site.positions()) === 0) await wait(50)
  return load
}

/** Another writer takes over, and no message is lost or duplicated. */
async function expectAllStored(site: Site<RelationalSite>, load: Load): Promise<void> {
  await site.start(0)
  const { counted, faults } = await verdict(site, load)
  expect(faults).toEqual([])
  expect(counted.deadLetters).toBe(0)
}

describeUnlessMissing('stops', missingKafka() ?? missingPostgres(), () => {
  test('with messages flowing it stores what it has read, and leaves the group', async () => {
    const { site } = await openTestSite()
    const load = await startFlow(site)
    const { code, members } = await stopped(site)
    expect({ code, members }).toEqual({ code: 0, members: 0 })
    await expectAllStored(site, load)
  })

  inDepth(() => {
    test("during the store's upkeep, which takes longer than a stop may, it does not wait for it", async () => {
      const { site, writer } = await openTestSite()
      const [{ name }] = (await site.store.query<{ name: string }>(
        `SELECT inhrelid::regclass::text AS name FROM pg_inherits WHERE inhparent = 'sluice.records'::regclass AND inhrelid::regclass::text ~ '\\d$' ORDER BY name DESC LIMIT 1`,
      )) as [{ name: string }]
      // A month's partition is missing, and creating it takes long: an upkeep that waits for a lock fails after some seconds.
      await site.store.query(
        `DROP TABLE ${name};
       CREATE FUNCTION slowly() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(60); END $$;
       CREATE EVENT TRIGGER slowly ON ddl_command_start WHEN TAG IN ('CREATE TABLE') EXECUTE FUNCTION slowly()`,
      )
      writer.beginUpkeep()
      const underWay = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND application_name = 'sluice-writer-relational'"
      while ((await site.store.query(underWay)).length === 0) await wait(20)
      const { code, members } = await stopped(site)
      expect({ code, members }).toEqual({ code: 0, members: 0 })
      expect(writer.printed()).not.toMatch(/did not stop in time|did not close|failed to close|took too long/)
    })
  })

  inDepth(() => {
    test('with a half-open connection to the store it drops what is in flight in time', async () => {
      const { site, writer } = await openTestSite()
      const load = await startFlow(site)
      site.store.proxy.halfOpen()
      const before = sumOf(load.ends())
      while (sumOf(load.ends()) < before + 500) await wait(20)
      const { code, members } = await stopped(site)
      expect({ code, members }, writer.printed().slice(-2000)).toEqual({ code: 0, members: 0 })
      await site.store.proxy.heal()
      site.store.proxy.cut()
      await expectAllStored(site, load)
    })
  })

  inDepth(() => {
    test('with the store away it drops what is in flight in time', async () => {
      const { site, writer } = await openTestSite()
      const load = await startFlow(site)
      await site.store.postgres.kill()
      await untilReady(writer, 503)
      const { code, members } = await stopped(site)
      expect({ code, members }, writer.printed().slice(-2000)).toEqual({ code: 0, members: 0 })
      await site.store.postgres.restart()
      await expectAllStored(site, load)
    })
  })
})
