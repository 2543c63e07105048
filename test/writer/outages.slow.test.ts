// Dependencies of a writer are away: for longer than every time limit, full, read-only, or refusing the writer. No outage makes a dead letter.

import { execFile } from 'node:child_process'
import { chown, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { inDepth } from '../depth.ts'
import { lastLine } from '../roles/processes.ts'
import { describeUnlessMissing } from '../servers/describe-with.ts'
import { missingKafka } from '../servers/install/kafka.ts'
import { missingPostgres } from '../servers/install/postgres.ts'
import { serverOwner } from '../servers/postgres-cluster.ts'
import { startLoad } from './load.ts'
import { untilReady, type WriterProcess } from './process.ts'
import { openSite, type Site, shortWaits, sumOf } from './site.ts'
import type { RelationalSite } from './stores/relational.ts'
import { verdict } from './verdict.ts'

const run = promisify(execFile)
/** Longer than the 10 s that a statement, and a connection to the store, may take. */
const storeAwayMs = 12_000

async function openTestSite(options: Parameters<typeof openSite>[0] = {}): Promise<Site<RelationalSite>> {
  const site = await openSite({ environment: { ...shortWaits, SVC_WORKERS_COUNT: '2' }, ...options })
  onTestFinished(() => site.close())
  return site
}

/** What it reports during this time, repeatedly, from when it is not ready. */
async function statesWhileAway(writer: WriterProcess, ms: number): Promise<{ ready: Set<number>; checks: Set<string> }> {
  await untilReady(writer, 503)
  const startedMs = performance.now()
  const ready = new Set<number>()
  const checks = new Set<string>()
  while (performance.now() < startedMs + ms) {
    ready.add(await writer.ready())
    checks.add(JSON.stringify((await writer.health()).checks))
    await wait(100)
  }
  return { ready, checks }
}

/** The sum of all partitions, and the longest. */
async function lagOf(writer: WriterProcess): Promise<{ messages: number; seconds: number }> {
  const seconds = [...(await writer.metrics('consumer_lag_seconds'))].map(([, value]) => value)
  return { messages: await writer.metric('consumer_lag_messages', 'id="relational"'), seconds: Math.max(...seconds) }
}

function linesOf(writer: WriterProcess, dependency: string): ReturnType<WriterProcess['logged']> {
  return writer.logged().filter(line => line['dependency'] === dependency)
}

async function untilProgress(site: Site<RelationalSite>): Promise<void> {
  const before = sumOf(await site.positions())
  while (sumOf(await site.positions()) <= before) await wait(50)
}

/** So that every connection gets the changed settings of a database or role. */
function endConnections(site: Site<RelationalSite>): Promise<unknown> {
  return site.store.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'sluice%'")
}

describeUnlessMissing('outages', missingKafka() ?? missingPostgres(), () => {
  test('PostgreSQL is away for longer than every time limit: not ready, no dead letter, recovers by itself, nothing lost or duplicated', async () => {
    const site = await openTestSite()
    const writer = await site.start(0)
    await untilReady(writer)
    const load = await startLoad(site.kafka.brokers, site.topic, { perSecond: 500, poison: false })
    await untilProgress(site)
    // The lag is reported every second, from the start of the share on.
    await expect.poll(async () => (await lagOf(writer)).messages).not.toBeNaN()
    // A worker may wait for the other, which creates the table under a lock, and report that.
    await expect.poll(() => writer.metric('dependency_outage', 'dependency="store"')).toBe(0)
    const linesBefore = linesOf(writer, 'store').length
    await site.store.postgres.kill()
    const killedSeconds = Date.now() / 1000
    await expect.poll(() => writer.metric('dependency_outage', 'dependency="store"')).toBe(1)
    const before = await lagOf(writer)
    const { ready, checks } = await statesWhileAway(writer, storeAwayMs)
    // The ends are requested every five seconds.
    await expect.poll(async () => (await lagOf(writer)).messages).toBeGreaterThan(before.messages + 1_000)
    await expect.poll(async () => (await lagOf(writer)).seconds).toBeGreaterThan(before.seconds + storeAwayMs / 1000 - 4)
    expect(await writer.metric('dependency_outage', 'dependency="log"')).toBe(0)
    expect(await writer.metric('last_write_timestamp_seconds')).toBeLessThan(killedSeconds)
    expect([...ready]).toEqual([503])
    expect([...checks]).toEqual([JSON.stringify({ writer: 'fail', log: 'pass', store: 'fail', partitions: 'pass' })])
    await site.store.postgres.restart()
    await untilReady(writer)
    expect(await writer.health()).toMatchObject({ status: 200, checks: { writer: 'pass', log: 'pass', store: 'pass' } })
    await untilProgress(site)
    await load.stop()
    await expect.poll(() => lagOf(writer)).toEqual({ messages: 0, seconds: 0 })
    expect(await writer.metric('dependency_outage')).toBe(0)
    expect(await writer.metric('last_write_timestamp_seconds')).toBeGreaterThan(killedSeconds)
    const lines = linesOf(writer, 'store').slice(linesBefore)
    expect(lines).toEqual([
      expect.objectContaining({
        level: 'warn',
        attempt: 1,
        msg: expect.stringMatching(/^PostgreSQL is away \([^)]*\), attempt 1, next in \d\.\d s$/),
      }),
      expect.objectContaining({ level: 'info', msg: expect.stringMatching(/^PostgreSQL is back after \d+\.\d s: \d+ messages waited$/) }),
    ])
    expect(lines[1]!['away_ms']).toBeGreaterThan(storeAwayMs - 2_000)
    expect(lines[1]!['waited_messages']).toBeGreaterThan(1_000)
    expect(writer.printed()).not.toContain('"stack"')
    const { counted, faults } = await verdict(site, load)
    expect(faults).toEqual([])
    expect(counted.deadLetters).toBe(0)
    expect(counted.acknowledged).toBe(counted.sent)
  })

  test('Kafka is away for longer than every time limit: not ready, recovers by itself, nothing lost or duplicated', async () => {
    const site = await openTestSite()
    const writer = await site.start(0)
    await untilReady(writer)
    const load = await startLoad(site.kafka.brokers, site.topic, { perSecond: 500, poison: false })
    await untilProgress(site)
    await site.kafka.kill()
    // An outage is noticed only after a session, which is as long as the other limits.
    const { ready, checks } = await statesWhileAway(writer, 2_000)
    expect([...ready]).toEqual([503])
    expect([...checks]).toEqual([JSON.stringify({ writer: 'fail', log: 'fail', store: 'pass', partitions: 'pass' })])
    expect(await writer.metric('dependency_outage', 'dependency="log"')).toBe(1)
    await site.kafka.restart()
    await untilReady(writer)
    await untilProgress(site)
    expect(await writer.metric('dependency_outage')).toBe(0)
    expect(linesOf(writer, 'log').map(({ msg }) => msg)).toEqual([
      expect.stringMatching(/^Kafka is away \(.*\), attempt 1, next in /),
      expect.stringMatching(/^Kafka is back after \d+\.\d s: \d+ messages? waited$/),
    ])
    expect(writer.printed()).not.toContain('"stack"')
    const { counted, faults } = await verdict(site, load)
    expect(faults).toEqual([])
    expect(counted.deadLetters).toBe(0)
  })

  inDepth(() => {
    test('a database that is read-only, as after a failover, is waited for', async () => {
      const site = await openTestSite()
      const writer = await site.start(0)
      await untilReady(writer)
      const database = new URL(site.store.url).pathname.slice(1)
      await site.store.query(`ALTER DATABASE ${database} SET default_transaction_read_only = on`)
      await endConnections(site)
      // Later, because a running batch would fail with its connection.
      const load = await startLoad(site.kafka.brokers, site.topic, { perSecond: 500, poison: false })
      await untilReady(writer, 503)
      const { ready, checks } = await statesWhileAway(writer, 3_000)
      expect([...ready]).toEqual([503])
      expect([...checks]).toEqual([JSON.stringify({ writer: 'fail', log: 'pass', store: 'fail', partitions: 'pass' })])
      expect(writer.printed()).toMatch(/PostgreSQL is away \(25006 /)
      await site.store.query(`BEGIN READ WRITE; ALTER DATABASE ${database} RESET default_transaction_read_only; COMMIT`)
      await endConnections(site)
      await untilReady(writer)
      await untilProgress(site)
      const { counted, faults } = await verdict(site, load)
      expect(faults).toEqual([])
      expect(counted.deadLetters).toBe(0)
    })
  })

  inDepth(() => {
    test('a full disk is waited for: no dead letter, and it continues when there is space', async () => {
      const site = await openTestSite()
      const writer = await site.start(0)
      await untilReady(writer)
      const disk = await smallDisk(site)
      const load = await startLoad(site.kafka.brokers, site.topic, { perSecond: 1000, poison: false })
      await untilReady(writer, 503)
      await disk.fill()
      // If one batch finds no space another one may, in pages that a failed one has left, until there are none.
      await expect.poll(async () => [...(await statesWhileAway(writer, 2_000)).ready]).toEqual([503])
      expect(writer.printed()).toMatch(/PostgreSQL is away .*53100/)
      await disk.grow()
      await untilReady(writer)
      await untilProgress(site)
      const { counted, faults } = await verdict(site, load)
      expect(faults).toEqual([])
      expect(counted.deadLetters).toBe(0)
      await disk.remove()
    })
  })

  test('a password that is no longer valid after a restart stops the process with one error, and nothing is lost', async () => {
    const role = { name: 'sluice_writer', password: 'the first of them' }
    const site = await openTestSite({ role })
    const writer = await site.start(0)
    await untilReady(writer)
    const load = await startLoad(site.kafka.brokers, site.topic, { perSecond: 300, poison: false })
    await untilProgress(site)
    await site.store.query(`ALTER ROLE ${role.name} PASSWORD 'another one'`)
    await site.store.postgres.restart('immediate')
    expect(await writer.ended).toBe(1)
    expect(lastLine(writer.printed())).toMatchObject({
      level: 'fatal',
      err: { code: '28P01' },
      msg: expect.stringMatching(/password authentication failed for user "sluice_writer".*store\.url \(SVC_RELATIONAL_URL\)/) as unknown,
    })
    expect(writer.printed()).not.toContain(role.password)
    expect(site.unexpected).toHaveLength(1)
    await site.store.query(`ALTER ROLE ${role.name} PASSWORD '${role.password}'`)
    await untilReady(await site.start(0))
    const { counted, faults } = await verdict(site, load)
    expect(faults).toEqual(site.unexpected)
    expect(counted.deadLetters).toBe(0)
  })
})

inDepth(() => {
  describeUnlessMissing('starts', missingKafka() ?? missingPostgres(), () => {
    test("a topic that ends below the store's positions stops the start with an error, and is never ready", async () => {
      const site = await openTestSite()
      const first = await site.start(0)
      await untilReady(first)
      const load = await startLoad(site.kafka.brokers, site.topic, { perSecond: 300, poison: false })
      await untilProgress(site)
      await load.stop()
      await site.stop(0)
      await site.store.query('UPDATE sluice.offsets SET next_offset = next_offset + 100000')

      const writer = await site.start(0)
      const answers = new Set<number>()
      while (site.writers[0] !== undefined) answers.add(await writer.ready().catch(() => 503))
      expect([...answers]).toEqual([503])
      expect(await writer.ended).toBe(1)
      expect(lastLine(writer.printed()).msg).toMatch(/ends at offset \d+, but the store continues at 1\d+: the log was truncated/)
      expect(writer.printed()).not.toMatch(/"msg":"ready"/)
      expect(first.printed()).toMatch(/"msg":"ready"/)
    })
  })
})

interface SmallDisk {
  /** Takes the remaining space. */
  fill(): Promise<void>
  grow(): Promise<void>
  remove(): Promise<void>
}

/** Moves the tables of messages to a disk of few megabytes. If no disk can be mounted on this machine, a trigger raises the error of a full disk. */
async function smallDisk(site: Site<RelationalSite>): Promise<SmallDisk> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-disk-'))
  try {
    await run('mount', ['-t', 'tmpfs', '-o', 'size=2m,mode=0777', 'tmpfs', folder])
  } catch {
    await rm(folder, { recursive: true })
    return fullByTrigger(site)
  }
  const unmount = async (): Promise<void> => {
    await run('umount', ['--lazy', folder]).catch(() => undefined)
    await rm(folder, { recursive: true, force: true })
  }
  onTestFinished(unmount)
  const owner = serverOwner()
  if (owner !== undefined) await chown(folder, owner.uid, owner.gid)
  await site.store.query(`CREATE TABLESPACE small LOCATION '${folder}'`)
  const tables = await site.store.query<{ name: string }>(
    `SELECT inhrelid::regclass::text AS name FROM pg_inherits WHERE inhparent = 'sluice.records'::regclass`,
  )
  for (const { name } of tables) await site.store.query(`ALTER TABLE ${name} SET TABLESPACE small`)
  return {
    fill: async () => {
      await run('sh', ['-c', `cat /dev/zero > '${join(folder, 'filler')}'`]).catch(() => undefined) // until the disk is full
    },
    grow: async () => void (await run('mount', ['-o', 'remount,size=512m', folder])),
    remove: async () => {
      await site.close()
      await unmount()
    },
  }
}

async function fullByTrigger(site: Site<RelationalSite>): Promise<SmallDisk> {
  await site.store.query(
    `CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS
     $$ BEGIN RAISE 'could not extend file: No space left on device' USING ERRCODE = 'disk_full'; END $$;
     CREATE TRIGGER full_disk BEFORE INSERT ON sluice.records FOR EACH ROW EXECUTE FUNCTION full_disk()`,
  )
  return {
    fill: async () => undefined,
    grow: async () => void (await site.store.query('DROP TRIGGER full_disk ON sluice.records')),
    remove: async () => undefined,
  }
}
