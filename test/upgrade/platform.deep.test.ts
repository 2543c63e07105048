// From one release to the next, role by role in the order of docs/guides/upgrade.md, without a pause; and back.

import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { apiEnvironment, type Role, readerEnvironment, spawnRole, token, whenReady } from '../roles/processes.ts'
import { whenRunning } from '../servers/describe-with.ts'
import { describeWithKafka, type KafkaAccess } from '../servers/kafka.ts'
import { describeWithPostgres } from '../servers/postgres.ts'
import { call, expectStatus, makeSite, publish, readUntil, type Site } from '../up/operator.ts'
import { disposableFolder, startPlatform } from '../up/platform.ts'
import { runSluice, startWriter, untilReady } from '../writer/process.ts'
import { refusal } from './refusal.ts'
import { type TwoReleases, twoReleases } from './two-releases.ts'

let made: TwoReleases | undefined
const releases = whenRunning(() => made)
beforeAll(async () => {
  made = await twoReleases()
})
afterAll(() => made?.remove())

const spawnIn = (folder: string, words: readonly string[], environment: Readonly<Record<string, string>>) =>
  spawnRole([join(folder, 'main.ts'), ...words, '--port', '0'], environment)

/** The roles of a release on one database, topic and store. */
function rolesOf(folder: string, { database, store, log }: { database: string; store: string; log: Readonly<Record<string, string>> }) {
  return {
    spawnApi: () => spawnIn(folder, ['api'], apiEnvironment(database)),
    api: () => whenReady(spawnIn(folder, ['api'], apiEnvironment(database))),
    reader: (api: Role) => whenReady(spawnIn(folder, ['reader', 'relational'], readerEnvironment(api.internalUrl, store))),
    ingest: (api: Role) =>
      whenReady(
        spawnIn(folder, ['ingest'], {
          SVC_CONTROL_URL: api.internalUrl,
          SVC_CONTROL_TOKEN: token,
          SVC_INTERNAL_LISTEN: '127.0.0.1:0',
          ...log,
        }),
      ),
    async writer() {
      const writer = await startWriter({ ...log, SVC_RELATIONAL_URL: store }, 'relational', folder)
      await untilReady(writer)
      return writer
    },
  }
}

const logOf = (kafka: KafkaAccess) => ({
  SVC_LOG_BROKERS: kafka.brokers.join(),
  SVC_LOG_TOPIC: `upgrade-${process.pid}`,
  SVC_LOG_CREATE: 'true',
})

/** What one api writes the other reads and changes, and the changes are seen by the first. */
async function expectShared(writing: string, reading: string): Promise<void> {
  const { owner: authorization, thing, channel } = await makeSite(writing)
  const on = (base: string, method: string, path: string, status: number, body?: object) =>
    expectStatus(call(base, method, path, { authorization, ...(body === undefined ? {} : { body }) }), status)
  for (const [kind, id] of [
    ['things', thing],
    ['channels', channel],
  ] as const) {
    const path = `/${kind}/${id}`
    const { headers, json } = await on(reading, 'GET', path, 200)
    expect(json).toMatchObject({ id })
    await on(reading, 'PUT', path, 200, { name: 'Straße 7', metadata: { floor: 3 } })
    const changed = await on(writing, 'GET', path, 200)
    expect([changed.json?.['name'], changed.json?.['metadata']]).toEqual(['Straße 7', { floor: 3 }])
    expect(changed.headers.get('etag')).not.toBe(headers.get('etag'))
    expect((await on(writing, 'GET', `/${kind}`, 200)).json).toMatchObject({ total: 1 })
  }
  expect((await on(reading, 'GET', `/things/${thing}/channels`, 200)).json).toMatchObject({ channels: [{ id: channel }] })
  await on(reading, 'DELETE', `/channels/${channel}/things/${thing}`, 204)
  expect((await on(writing, 'GET', `/things/${thing}/channels`, 200)).json).toMatchObject({ channels: [] })
  await on(writing, 'PUT', `/channels/${channel}/things/${thing}`, 200)
  expect((await on(reading, 'GET', `/channels/${channel}/things`, 200)).json).toMatchObject({ things: [{ id: thing }] })
  await on(reading, 'DELETE', `/things/${thing}`, 204)
  await on(writing, 'GET', `/things/${thing}`, 403)
}

/** Publishes one record, which is stored as the next value of the site. */
const publishNext = async (ingest: Role, site: Site, v: number): Promise<void> =>
  void (await expectStatus(publish(ingest.url, site, [{ n: 'count', v }]), 202))

describe('an upgrade', () => {
  describeWithKafka('of separate roles', kafka =>
    describeWithPostgres('on PostgreSQL', postgres => {
      test('in the order of the guide never stops the platform, and an earlier api starts again unless the database was migrated', async () => {
        const places = { database: await postgres.createDatabase(), store: await postgres.createDatabase(), log: logOf(kafka) }
        const before = rolesOf(releases.earlier, places)
        const now = rolesOf(releases.later, places)
        const api = await before.api()
        const ingest = await before.ingest(api)
        // A reader is ready once a writer has created its store.
        let writer = await before.writer()
        const reader = await before.reader(api)
        const site = await makeSite(api.url)
        await publishNext(ingest, site, 1)
        await readUntil(reader.url, site, 1)

        // The control plane: a new instance migrates the database while the earlier one serves.
        const newApi = await now.api()
        await expectShared(api.url, api.url)
        await expectShared(api.url, newApi.url)
        await expectShared(newApi.url, api.url)
        await publishNext(ingest, site, 2)
        const other = await makeSite(newApi.url)
        await publishNext(ingest, other, 1)

        // What still follows the earlier instance, or follows the new one.
        const ingests = await Promise.all([now.ingest(api), before.ingest(newApi), now.ingest(newApi)])
        for (const [nth, one] of ingests.entries()) await publishNext(one, site, 3 + nth)
        await readUntil(reader.url, site, 5)

        // The writer, and then the readers.
        expect(await writer.stop()).toBe(0)
        writer = await now.writer()
        await publishNext(ingest, site, 6)
        const readers = [reader, ...(await Promise.all([before.reader(newApi), now.reader(newApi)]))]
        for (const one of readers) {
          const records = await readUntil(one.url, site, 6)
          expect(records).toHaveLength(6)
          expect(new Set(records.map(({ Value }) => Value))).toEqual(new Set([1, 2, 3, 4, 5, 6]))
        }

        // Back: the earlier api still serves, and one that starts now is refused if the database was migrated.
        await expectShared(api.url, newApi.url)
        const again = before.spawnApi()
        if (releases.isMigrated('control-plane/migrations')) {
          expect(await again.ended).toBe(1)
          expect(again.printed()).toMatch(refusal)
          expect(await readFile(new URL('../../docs/guides/upgrade.md', import.meta.url), 'utf8')).toMatch(refusal)
        } else await expectShared((await whenReady(again)).url, newApi.url)
        for (const role of [ingest, ...ingests, ...readers, api, newApi]) expect(await role.stop()).toBe(0)
        expect(await writer.stop()).toBe(0)
        const verified = await runSluice(['verify', 'relational'], { ...places.log, SVC_RELATIONAL_URL: places.store }, releases.later)
        expect([verified.code, verified.printed]).toEqual([0, expect.stringContaining('ok: 7 messages')])
      })
    }),
  )

  test('of ./sluice up keeps users, things and messages, and back it is refused if the database was migrated', async () => {
    await using folder = await disposableFolder()
    const data = folder.path
    let platform = await startPlatform({ data, root: releases.earlier })
    const site = await makeSite(platform.url)
    await expectStatus(publish(platform.url, site, [{ n: 'count', v: 1 }]), 202)
    await readUntil(platform.url, site, 1)
    expect(await platform.stop()).toBe(0)
    platform = await startPlatform({ data, root: releases.later })
    await expectStatus(publish(platform.url, site, [{ n: 'count', v: 2 }]), 202)
    await readUntil(platform.url, site, 2)
    await expectShared(platform.url, platform.url)
    expect(await platform.stop()).toBe(0)

    const back = () => startPlatform({ data, root: releases.earlier })
    if (releases.isMigrated('control-plane/migrations') || releases.isMigrated('sinks/postgres/migrations'))
      await expect(back()).rejects.toThrow(refusal)
    else expect(await (await back()).stop()).toBe(0)
  })
})
