// Readers as separate processes, with a real api and a store that the sink has filled: who may read what, for how long, and which cursors are valid.

import { randomUUID } from 'node:crypto'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { inDepth } from '../../depth.ts'
import { describeWithPostgres } from '../../servers/postgres.ts'
import { call, expectStatus, makeSite, type Site } from '../../up/operator.ts'
import {
  administrator,
  apiEnvironment,
  apiWords,
  internalAddress,
  type Role,
  readerEnvironment,
  readerWords,
  spawnRole,
  startApi,
  startReader,
  token,
  untilHealth,
  untilPrinted,
  whenReady,
} from '../processes.ts'
import { fill, openReadSite, read, valuesOf } from '../read-site.ts'

/** Milliseconds until the query has that status, and the statuses before. */
async function untilStatus(reader: Role, site: Site, authorization: string, status: number) {
  const startedMs = performance.now()
  const before: number[] = []
  for (;;) {
    const answer = await read(reader, site, authorization)
    if (answer.status === status) return { ms: performance.now() - startedMs, before, answer }
    before.push(answer.status)
  }
}

describeWithPostgres('readers in separate processes', postgres => {
  test('a thing reads what it published, the owner the channel, and other callers nothing', async () => {
    const at = await openReadSite(postgres)
    const { api, storeUrl } = at
    const reader = await startReader(api.internalUrl, storeUrl)
    const [mine, foreign] = [await makeSite(api.url), await makeSite(api.url)]
    await fill(at, mine.channel, mine.thing, 3)
    await fill(at, mine.channel, foreign.thing, 4)

    const own = await expectStatus(read(reader, mine, mine.device), 200)
    expect([own.json?.['total'], valuesOf(own)]).toEqual([3, [2, 1, 0]])
    expect((await expectStatus(read(reader, mine, mine.owner, '?count=exact'), 200)).json?.['total']).toBe(7)
    const foreignRows = await expectStatus(read(reader, mine, mine.device, `?publisher=${foreign.thing}`), 200)
    expect(foreignRows.json).toMatchObject({ total: 0, messages: [] })
    for (const stranger of [foreign.device, foreign.owner]) {
      const [refused, absent] = [await read(reader, mine, stranger), await read(reader, { channel: randomUUID() }, stranger)]
      expect([refused.status, absent.status]).toEqual([403, 403])
      const told = ({ json }: typeof refused) => ({ ...json, request_id: '' })
      expect(told(refused)).toEqual(told(absent))
    }
    for (const nobody of [`Thing ${randomUUID()}`, 'Bearer a.b.c']) {
      const { status, headers } = await read(reader, mine, nobody)
      expect([status, headers.get('www-authenticate')]).toEqual([401, 'Thing realm="sluice", Bearer realm="sluice"'])
    }
    expect((await read(reader, mine, mine.owner, '?limit=0')).status).toBe(400)

    expect(await reader.stop()).toBe(0)
    await at.close()
    for (const secret of [token, mine.device.slice(6), mine.owner.slice(7), administrator.password])
      expect(reader.printed()).not.toContain(secret)
  })

  test('a disconnect is effective within 1 s on two readers, also on the one that follows another api', async () => {
    const at = await openReadSite(postgres)
    const other = await startApi(at.api.database)
    const readers = await Promise.all([at.api, other].map(({ internalUrl }) => startReader(internalUrl, at.storeUrl)))
    const { owner, channel, thing, device } = at.site
    for (const reader of readers) {
      await untilHealth(reader, 'control-plane', 'pass')
      await expectStatus(read(reader, at.site, device), 200)
    }

    const ended = call(at.api.url, 'DELETE', `/channels/${channel}/things/${thing}`, { authorization: owner })
    const waited = await Promise.all(readers.map(reader => untilStatus(reader, at.site, device, 403)))
    expect((await ended).status).toBe(204)
    for (const { ms, before } of waited) {
      // In a fraction of a second on a quiet machine. A grant whose end is not known is used for a minute.
      expect(ms).toBeLessThan(30_000)
      expect([...new Set([200, ...before])]).toEqual([200])
    }
    for (const role of [...readers, other]) expect(await role.stop()).toBe(0)
    await at.close()
  })

  test('with the api killed a known caller is answered for at most 5 s, then gets 503 with Retry-After, and it recovers by itself', async () => {
    const address = await internalAddress()
    const own = await openReadSite(postgres, database => startApi(database, { SVC_INTERNAL_LISTEN: address }))
    const reader = await startReader(own.api.internalUrl, own.storeUrl)
    await untilHealth(reader, 'control-plane', 'pass')
    await expectStatus(read(reader, own.site, own.site.device), 200)

    expect(await own.api.stop('SIGKILL')).toBe('SIGKILL')
    // An unknown caller can now be neither granted nor refused access.
    const unknown = await read(reader, own.site, own.site.owner)
    expect([unknown.status, unknown.headers.get('retry-after')]).toEqual([503, '1'])
    const last = await untilStatus(reader, own.site, own.site.device, 503)
    expect(last.answer.headers.get('retry-after')).toBe('1')
    // 5 s after the last beat on a quiet machine, and not after the minute for which a grant is used while beats come.
    expect(last.ms).toBeLessThan(30_000)
    expect([...new Set([200, ...last.before])]).toEqual([200])
    // Only the control plane is away: the process itself stays up, and says so.
    expect((await call(reader.internalUrl, 'GET', '/readyz')).status).toBe(200)
    await untilHealth(reader, 'control-plane', 'fail')
    await untilHealth(reader, 'store', 'pass')

    const again = await startApi(own.api.database, { SVC_INTERNAL_LISTEN: address })
    await untilStatus(reader, own.site, own.site.owner, 200)
    await untilStatus(reader, own.site, own.site.device, 200)
    for (const role of [reader, again]) expect(await role.stop()).toBe(0)
    await own.close()
  })

  inDepth(() => {
    test("readers accept each other's cursors by their shared token, or by a separate key, and no foreign cursors", async () => {
      const at = await openReadSite(postgres)
      const { api, storeUrl } = at
      const site = await makeSite(api.url)
      await fill(at, site.channel, site.thing, 5)
      const cursorKey = Buffer.alloc(32, 5).fill(7, 3).toString('base64url')
      const start = (extra: Record<string, string> = {}) => startReader(api.internalUrl, storeUrl, extra)
      const byToken = await Promise.all([start(), start()])
      const byKey = await Promise.all([start({ SVC_READER_CURSOR_KEY: cursorKey }), start({ SVC_READER_CURSOR_KEY: cursorKey })])

      for (const [first, second] of [byToken, byKey] as const) {
        const page = await expectStatus(read(first, site, site.owner, '?limit=2'), 200)
        const cursor = String(page.json?.['next_cursor'])
        const next = await expectStatus(read(second, site, site.owner, `?limit=2&cursor=${cursor}`), 200)
        expect([...valuesOf(page), ...valuesOf(next)]).toEqual([4, 3, 2, 1])
        for (const other of [...byToken, ...byKey].filter(reader => reader !== first && reader !== second)) {
          const refused = await read(other, site, site.owner, `?limit=2&cursor=${cursor}`)
          expect([refused.status, refused.text]).toEqual([400, expect.stringMatching(/cursor/)])
        }
        // A thing may not continue a page of the whole channel.
        expect((await read(second, site, site.device, `?limit=2&cursor=${cursor}`)).status).toBe(400)
      }
      for (const reader of [...byToken, ...byKey]) {
        expect(reader.printed()).not.toMatch(/valid in this process only/)
        expect(reader.printed()).not.toContain(cursorKey)
        expect(await reader.stop()).toBe(0)
      }
      await at.close()
    })
  })
})

inDepth(() => {
  describeWithPostgres('a reader without a token', postgres => {
    const fixture = (name: string): string => fileURLToPath(new URL(`../../control-plane/internal/fixtures/${name}.pem`, import.meta.url))

    test('authenticates with its certificate, signs cursors with a key of its own, and logs what that means', async () => {
      const at = await openReadSite(postgres, database => {
        const { SVC_CONTROL_TOKEN: _, ...environment } = apiEnvironment(database, {
          SVC_INTERNAL_CERT_FILE: fixture('server'),
          SVC_INTERNAL_KEY_FILE: fixture('server-key'),
          SVC_INTERNAL_CA_FILE: fixture('ca'),
        })
        return whenReady(spawnRole(apiWords, environment))
      })
      await fill(at, at.site.channel, at.site.thing, 3)
      const { SVC_CONTROL_TOKEN: _, ...environment } = readerEnvironment(at.api.internalUrl, at.storeUrl, {
        SVC_CONTROL_CERT_FILE: fixture('client'),
        SVC_CONTROL_KEY_FILE: fixture('client-key'),
        SVC_CONTROL_CA_FILE: fixture('ca'),
      })
      const [reader, other] = await Promise.all([1, 2].map(() => whenReady(spawnRole(readerWords, environment))))
      for (const one of [reader!, other!]) {
        await untilPrinted(
          one,
          /cursors and event ids of live streams are valid in this process only: .*SVC_CONTROL_TOKEN.*SVC_READER_CURSOR_KEY/,
        )
        await untilHealth(one, 'control-plane', 'pass')
      }
      const page = await expectStatus(read(reader!, at.site, at.site.device, '?limit=2'), 200)
      const query = `?limit=2&cursor=${String(page.json?.['next_cursor'])}`
      const next = await expectStatus(read(reader!, at.site, at.site.device, query), 200)
      expect([...valuesOf(page), ...valuesOf(next)]).toEqual([2, 1, 0])
      expect((await read(other!, at.site, at.site.device, query)).status).toBe(400)
      for (const one of [reader!, other!]) expect(await one.stop()).toBe(0)
      await at.close()
    })
  })
})
