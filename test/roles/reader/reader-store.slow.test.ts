// Readers as separate processes when their store is away, silent, refusing or slow; and at a stop.

import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import type { Database } from '../../../database/database.ts'
import { openServer } from '../../../database/server.ts'
import { logPartition } from '../../../transformers/log-partition.ts'
import { RecordBatch } from '../../../transformers/record-batch.ts'
import { inDepth } from '../../depth.ts'
import { openSite } from '../../readers/postgres/site.ts'
import { insertRecords } from '../../readers/postgres/stored-rows.ts'
import { extractBlocks } from '../../readme/blocks.ts'
import { describeWithOwnPostgres } from '../../servers/postgres.ts'
import { openProxy } from '../../servers/process/proxy.ts'
import { undocumentedMetrics } from '../../tidy/metrics.ts'
import { call, expectStatus } from '../../up/operator.ts'
import { promptStop } from '../../up/platform.ts'
import {
  internalAddress,
  lastLine,
  readerEnvironment,
  readerWords,
  spawnRole,
  startApi,
  startReader,
  untilHealth,
  untilPrinted,
  whenReady,
} from '../processes.ts'
import { fill, openReadSite, type ReadSite, read, valuesOf } from '../read-site.ts'

const readme = new URL('../../../readers/postgres/README.md', import.meta.url)
/** A failing check as shown to everyone. */
const away = expect.objectContaining({ status: 'fail', output: 'see the log' }) as unknown
/** An address on which nothing listens. */
const nowhere = 'http://127.0.0.1:1'

/** Blocks queries of a table until the release. */
async function hold(database: Database, table: string): Promise<() => Promise<void>> {
  const [held, released] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const holding = database.transaction(async transaction => {
    await transaction.execute(`LOCK TABLE ${table} IN ACCESS EXCLUSIVE MODE`)
    held.resolve()
    await released.promise
  })
  await held.promise
  return async () => {
    released.resolve()
    await holding
  }
}

/** How many queries of readers the store runs, without their checks. */
async function underWay({ store }: ReadSite): Promise<number> {
  const [row] = await store.database.query<{ count: bigint }>(
    `SELECT count(*) AS count FROM pg_stat_activity WHERE application_name = 'sluice-reader' AND state = 'active' AND datname = current_database()
     AND query NOT LIKE 'SELECT 1 %'`,
  )
  return Number(row!.count)
}

/** For SenML. */
const holdMessages = (database: Database): Promise<() => Promise<void>> => hold(database, 'sluice.records')

describeWithOwnPostgres('a reader and its store', postgres => {
  test('while the store is away it listens, is alive and not ready, and answers 503; then it works', async () => {
    const at = await openReadSite(postgres)
    await fill(at, at.site.channel, at.site.thing, 2)
    const storeUrl = new URL(at.storeUrl)
    const proxy = await openProxy({ port: Number(storeUrl.port) })
    proxy.refuse()
    storeUrl.port = String(proxy.port)
    const [address, internal] = [await internalAddress(), await internalAddress()]
    const spawned = spawnRole(
      [...readerWords.slice(0, -1), address.split(':')[1]!],
      readerEnvironment(at.api.internalUrl, storeUrl.href, { SVC_INTERNAL_LISTEN: internal }),
    )
    await untilPrinted(spawned, /PostgreSQL is away .*: the start waits for it/)
    await untilHealth({ internalUrl: `http://${internal}` }, 'control-plane', 'pass')
    for (const base of [`http://${address}`, `http://${internal}`]) {
      expect((await call(base, 'GET', '/livez')).status).toBe(200)
      expect((await call(base, 'GET', '/readyz')).status).toBe(503)
      const { status, json } = await call(base, 'GET', '/health')
      expect([status, json]).toEqual([
        503,
        expect.objectContaining({ checks: { store: [away], 'control-plane': [expect.objectContaining({ status: 'pass' })] } }),
      ])
    }
    const early = await read({ url: `http://${address}` }, at.site, at.site.device)
    expect([early.status, early.headers.get('retry-after')]).toEqual([503, '1'])
    expect(spawned.printed()).not.toMatch(/^ready on /m)

    await proxy.heal()
    const reader = await whenReady(spawned)
    expect((await call(reader.url, 'GET', '/readyz')).status).toBe(200)
    expect(valuesOf(await expectStatus(read(reader, at.site, at.site.device), 200))).toEqual([1, 0])

    // Away again, under a running reader.
    proxy.refuse()
    proxy.cut()
    const later = await read(reader, at.site, at.site.device)
    expect([later.status, later.headers.get('retry-after')]).toEqual([503, '1'])
    expect((await call(reader.url, 'GET', '/readyz')).status).toBe(200)
    await untilHealth(reader, 'store', 'fail')
    await proxy.heal()
    await untilHealth(reader, 'store', 'pass')
    await expectStatus(read(reader, at.site, at.site.device), 200)
    expect(await reader.stop()).toBe(0)
    await proxy.close()
    await at.close()
  })

  inDepth(() => {
    test('before the first writer it says that one must be started, and continues when the tables exist', async () => {
      const storeUrl = await postgres.createDatabase()
      const address = await internalAddress()
      const spawned = spawnRole(readerWords, readerEnvironment(`http://${address}`, storeUrl))
      await untilPrinted(spawned, /the database contains no message tables: start a writer on it/)
      const site = await openSite(
        await openServer({ url: storeUrl, applicationName: 'a-writer', connectionsMax: 2 }),
        async () => undefined,
      )
      const api = await startApi(await postgres.createDatabase(), { SVC_INTERNAL_LISTEN: address })
      expect(await (await whenReady(spawned)).stop()).toBe(0)
      expect(await api.stop()).toBe(0)
      await site.close()
    })
  })

  test('a permanent error stops it with a message that names the option, and no secret', async () => {
    const storeUrl = await postgres.createDatabase()
    const site = await openSite(await openServer({ url: storeUrl, applicationName: 'a-writer', connectionsMax: 2 }), async () => undefined)
    await site.database.execute('CREATE ROLE without_rights LOGIN')
    const urlOf = (change: (url: URL) => void): string => {
      const url = new URL(storeUrl)
      url.password = 'hidden-word'
      change(url)
      return url.href
    }
    const refusals: [string, string, RegExp][] = [
      [
        urlOf(url => (url.username = 'unknown_role')),
        '28000',
        /rejected the login .*role "unknown_role" does not exist.*store\.url \(SVC_RELATIONAL_URL\)/,
      ],
      [urlOf(url => (url.pathname = '/absent')), '3D000', /database "absent" does not exist.*store\.url \(SVC_RELATIONAL_URL\)/],
      [
        urlOf(url => (url.username = 'without_rights')),
        '42501',
        /permission denied for schema sluice\): grant .* store\.url \(SVC_RELATIONAL_URL\): GRANT USAGE ON SCHEMA sluice TO "without_rights"/,
      ],
    ]
    for (const [url, code, reason] of refusals) {
      const { ended, printed } = spawnRole(readerWords, readerEnvironment(nowhere, url))
      expect(await ended).toBe(1)
      expect(lastLine(printed())).toMatchObject({ level: 'fatal', err: { code }, msg: expect.stringMatching(reason) as unknown })
      expect(printed()).not.toMatch(/hidden-word|^\s+at /m)
    }
    await site.close()
  })

  inDepth(() => {
    test('it needs the rights in its README, and no others', async () => {
      const at = await openReadSite(postgres)
      const { channel, thing, device } = at.site
      const [rights] = extractBlocks(readFileSync(readme, 'utf8'), 'rights')
      await at.store.database.execute(`CREATE ROLE reader LOGIN; ${rights!.text}`)
      const url = new URL(at.storeUrl)
      url.username = 'reader'
      const reader = await startReader(at.api.internalUrl, url.href)
      await fill(at, channel, thing, 2)
      const batch = new RecordBatch()
      batch.beginMessage({ at: logPartition(0, 1), offset: 0, channel, subtopic: 'weather', publisher: thing, protocol: 'http' })
      batch.appendDocument(0, 'weather', 1_700_000_000_000_000, 0, { wind: 'west' })
      batch.endMessage()
      batch.cover(logPartition(0, 1), 0, 1)
      await at.store.store(batch)
      const totals: unknown[] = []
      for (const query of ['', '?latest=true', '?aggregation=avg&interval=1d', '?format=unknown', '?format=weather', '?count=exact']) {
        const { json } = await expectStatus(read(reader, at.site, device, query), 200)
        totals.push(json?.['total'])
      }
      expect(totals).toEqual([2, 1, 1, 0, 1, 2])
      expect(await reader.stop()).toBe(0)
      await at.close()
    })
  })

  test('a query that takes too long is a 422, and the query of a client that disconnected ends in the store', async () => {
    const at = await openReadSite(postgres)
    await fill(at, at.site.channel, at.site.thing, 2)
    const hasty = await startReader(at.api.internalUrl, at.storeUrl, { SVC_STORE_QUERY_TIMEOUT_MS: '300' })
    const patient = await startReader(at.api.internalUrl, at.storeUrl)
    const release = await holdMessages(at.store.database)
    const { status, json } = await read(hasty, at.site, at.site.device)
    expect([status, json?.['code']]).toEqual([422, 'query_too_large'])

    const going = new AbortController()
    const asked = fetch(`${patient.url}/channels/${at.site.channel}/messages`, {
      headers: { authorization: at.site.device },
      signal: going.signal,
    })
    await expect.poll(() => underWay(at)).toBeGreaterThan(0)
    going.abort(new Error('gone'))
    await expect(asked).rejects.toThrow('gone')
    await expect.poll(() => underWay(at)).toBe(0)
    await release()
    for (const role of [hasty, patient]) expect(await role.stop()).toBe(0)
    await at.close()
  })

  inDepth(() => {
    test('queries that occupy every connection do not make the store look away', async () => {
      const at = await openReadSite(postgres)
      const reader = await startReader(at.api.internalUrl, at.storeUrl, { SVC_STORE_CONNECTIONS_MAX: '1' })
      const release = await hold(at.store.database, 'sluice.formats')
      const asked = read(reader, at.site, at.site.device, '?format=weather')
      await expect.poll(() => underWay(at)).toBeGreaterThan(0)
      await untilHealth(reader, 'store', 'pass')
      await release()
      await expectStatus(asked, 200)
      expect(await reader.stop()).toBe(0)
      await at.close()
    })
  })

  test('a stop answers running requests if the store answers in time', async () => {
    const at = await openReadSite(postgres)
    await fill(at, at.site.channel, at.site.thing, 2)
    const reader = await startReader(at.api.internalUrl, at.storeUrl)
    const release = await holdMessages(at.store.database)
    const asked = read(reader, at.site, at.site.device)
    await expect.poll(() => underWay(at)).toBeGreaterThan(0)
    const stopped = reader.stop()
    await untilPrinted(reader, /"stopping"/)
    await release()
    expect(valuesOf(await expectStatus(asked, 200))).toEqual([1, 0])
    expect(await stopped).toBe(0)
    await at.close()
  })

  inDepth(() => {
    test('a stop interrupts queries that the store does not answer, and an export that is not read', async () => {
      const at = await openReadSite(postgres)
      const { channel, thing, device } = at.site
      // More than the buffers on the way hold.
      await insertRecords(
        at.store.database,
        'time, channel, subtopic, publisher, protocol, name, value, position, index',
        `SELECT timestamptz '2026-10-01' + n * interval '1 second', '${channel}', '', '${thing}', 'http', 'n', n, n, 0
         FROM generate_series(1, 200000) AS n`,
      )
      const reader = await startReader(at.api.internalUrl, at.storeUrl, promptStop)
      const whole = await fetch(`${reader.url}/channels/${channel}/messages?limit=all`, { headers: { authorization: device } })
      expect(whole.status).toBe(200)
      const bytes = whole.body!.getReader()
      expect((await bytes.read()).done).toBe(false)

      const release = await holdMessages(at.store.database)
      const unanswered = read(reader, at.site, device).then(
        ({ status }) => status,
        () => 'broken off',
      )
      await expect.poll(() => underWay(at)).toBeGreaterThan(0)
      // Later than five seconds it would be 1.
      expect(await reader.stop()).toBe(0)
      expect(['broken off', 503]).toContain(await unanswered)
      await expect(
        (async () => {
          while (!(await bytes.read()).done);
        })(),
      ).rejects.toThrow()
      await release()
      await at.close()
    })
  })

  test('it counts requests by route and status, and its queries to the store, without an id in a label', async () => {
    const at = await openReadSite(postgres)
    const reader = await startReader(at.api.internalUrl, at.storeUrl)
    for (const query of ['', '', '?latest=true', '?limit=x']) await read(reader, at.site, at.site.device, query)
    const { text } = await call(reader.internalUrl, 'GET', '/metrics')
    const count = (pattern: string): number => Number(new RegExp(`^${pattern} (\\d+)$`, 'm').exec(text)?.[1])
    const requests = (status: number) =>
      count(
        `http_server_handler_duration_seconds_count\\{component_id="reader",component_kind="source",method="GET",path="/channels/:channel/messages",status="${status}",answer="page"\\}`,
      )
    expect([requests(200), requests(400)]).toEqual([3, 1])
    const queries = (query: string) =>
      count(`store_query_duration_seconds_count\\{component_id="reader",component_kind="source",query="${query}"\\}`)
    expect([queries('read'), queries('latest')]).toEqual([2, 1])
    expect(text).toMatch(/^process_resident_memory_bytes /m)
    expect(undocumentedMetrics(text)).toEqual([])
    for (const id of [at.site.channel, at.site.thing]) expect(text).not.toContain(id)
    expect((await call(reader.url, 'GET', '/metrics')).status).toBe(404)
    const described = await call(reader.url, 'GET', '/openapi.json')
    expect(Object.keys(described.json?.['paths'] as object)).toContain('/channels/{channel}/messages')
    expect(await reader.stop()).toBe(0)
    await at.close()
  })
})
