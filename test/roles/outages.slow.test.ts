// The control plane fails under a running ingest: what still works, for how long, and that it recovers by itself.

import { expect, test } from 'vitest'
import { inDepth } from '../depth.ts'
import { describeWithOwnPostgres, startPostgres } from '../servers/postgres.ts'
import { openProxy } from '../servers/process/proxy.ts'
import { call, expectStatus, makeSite, publish, type Site } from '../up/operator.ts'
import { internalAddress, startApi, startIngest, untilHealth, untilPrinted } from './processes.ts'

const pack = [{ n: 'count', v: 1 }]

/**
 * A bound for times that are seconds on a quiet machine: enough for one that is busy or stands still, and less than the minute for which a grant is
 * used while its end is not known.
 */
const soonMs = 40_000

/** The statuses of consecutive publishes until one is `last`, and the milliseconds until then. */
async function publishUntil(url: string, site: Site, last: number) {
  const statuses: number[] = []
  const startedMs = performance.now()
  for (;;) {
    const { status, headers } = await publish(url, site, pack)
    statuses.push(status)
    if (status === last) return { statuses, ms: performance.now() - startedMs, retryAfter: headers.get('retry-after') }
    await new Promise(resolve => setTimeout(resolve, 20))
  }
}

describeWithOwnPostgres('outages', postgres => {
  test('with the api killed, known devices publish for at most 5 s, then get 503 with Retry-After, and it recovers by itself', async () => {
    const database = await postgres.createDatabase()
    const address = await internalAddress()
    const api = await startApi(database, { SVC_INTERNAL_LISTEN: address })
    const [known, unknown] = [await makeSite(api.url), await makeSite(api.url)]
    const startedMs = performance.now()
    const ingest = await startIngest(api.internalUrl)
    await untilHealth(ingest, 'control-plane', 'pass')
    await expectStatus(publish(ingest.url, known, pack), 202)

    expect(await api.stop('SIGKILL')).toBe('SIGKILL')
    // An unknown device can now be neither granted nor refused access.
    const first = await publish(ingest.url, unknown, pack)
    expect([first.status, first.headers.get('retry-after')]).toEqual([503, '1'])
    const { statuses, ms, retryAfter } = await publishUntil(ingest.url, known, 503)
    expect(new Set([202, ...statuses])).toEqual(new Set([202, 503]))
    expect(retryAfter).toBe('1')
    // 5 s after the last beat, which came after this ingest was started, and before the kill.
    expect(performance.now() - startedMs).toBeGreaterThan(5_000)
    expect(ms).toBeLessThan(soonMs)
    // Only the control plane is away: the process itself stays up, and says so.
    expect((await call(ingest.internalUrl, 'GET', '/readyz')).status).toBe(200)
    await untilHealth(ingest, 'control-plane', 'fail')

    const again = await startApi(database, { SVC_INTERNAL_LISTEN: address })
    await publishUntil(ingest.url, unknown, 202)
    await untilHealth(ingest, 'control-plane', 'pass')
    await expectStatus(publish(ingest.url, known, pack), 202)
    expect(await ingest.stop()).toBe(0)
    expect(await again.stop()).toBe(0)
  })

  inDepth(() => {
    test('an api that restarts with another database ends all earlier grants', async () => {
      const address = await internalAddress()
      const api = await startApi(await postgres.createDatabase(), { SVC_INTERNAL_LISTEN: address })
      const ingest = await startIngest(api.internalUrl)
      const site = await makeSite(api.url)
      await untilHealth(ingest, 'control-plane', 'pass')
      await expectStatus(publish(ingest.url, site, pack), 202)
      expect(await api.stop('SIGKILL')).toBe('SIGKILL')

      const other = await startApi(await postgres.createDatabase(), { SVC_INTERNAL_LISTEN: address })
      const { statuses, ms } = await publishUntil(ingest.url, site, 401)
      // The stream of changes is connected again by then, so an earlier grant would be valid for a minute.
      // On a busy machine it may already be, or the cached grant may have ended before.
      for (const status of statuses.slice(0, -1)) expect([202, 503]).toContain(status)
      expect(ms).toBeLessThan(soonMs)
      const another = await makeSite(other.url)
      await expectStatus(publish(ingest.url, another, pack), 202)
      expect((await publish(ingest.url, site, pack)).status).toBe(401)
      expect(await ingest.stop()).toBe(0)
      expect(await other.stop()).toBe(0)
    })
  })

  inDepth(() => {
    test('followers of an api do not delay its stop, and are notified immediately', async () => {
      const api = await startApi(await postgres.createDatabase())
      const ingest = await startIngest(api.internalUrl)
      await untilHealth(ingest, 'control-plane', 'pass')
      expect(await api.stop()).toBe(0)
      await untilPrinted(ingest, /the control plane is away .*: cached grants are used for a few seconds/)
      // By the api itself: it is not cut off when the time for running requests is over.
      expect(ingest.printed()).toMatch(/the control plane is away \(.* ended the stream\)/)
      await untilHealth(ingest, 'control-plane', 'fail')
      expect(await ingest.stop()).toBe(0)
    })
  })

  inDepth(() => {
    test('changes made while the stream is interrupted take effect as soon as it is back', async () => {
      const api = await startApi(await postgres.createDatabase())
      const proxy = await openProxy({ port: Number(new URL(api.internalUrl).port) })
      const ingest = await startIngest(`http://127.0.0.1:${proxy.port}`)
      const site = await makeSite(api.url)
      await untilHealth(ingest, 'control-plane', 'pass')
      await expectStatus(publish(ingest.url, site, pack), 202)

      proxy.refuse()
      proxy.cut()
      await untilHealth(ingest, 'control-plane', 'fail')
      expect((await call(api.url, 'DELETE', `/channels/${site.channel}/things/${site.thing}`, { authorization: site.owner })).status).toBe(
        204,
      )
      // Not notified yet: the earlier grant is used, or 5 s after the last beat none.
      expect([202, 503]).toContain((await publish(ingest.url, site, pack)).status)
      await proxy.heal()
      await untilHealth(ingest, 'control-plane', 'pass')
      expect((await publish(ingest.url, site, pack)).status).toBe(403)
      expect(await ingest.stop()).toBe(0)
      expect(await api.stop()).toBe(0)
      await proxy.close()
    })
  })

  inDepth(() => {
    test('a stream that is lost without either end knowing is detected by its silence', async () => {
      const api = await startApi(await postgres.createDatabase())
      const proxy = await openProxy({ port: Number(new URL(api.internalUrl).port) })
      const ingest = await startIngest(`http://127.0.0.1:${proxy.port}`)
      const site = await makeSite(api.url)
      await untilHealth(ingest, 'control-plane', 'pass')
      await expectStatus(publish(ingest.url, site, pack), 202)

      proxy.halfOpen()
      expect((await call(api.url, 'DELETE', `/channels/${site.channel}/things/${site.thing}`, { authorization: site.owner })).status).toBe(
        204,
      )
      const { ms } = await publishUntil(ingest.url, site, 503)
      // 5 s after the last beat, and 2 s in which the request gets no answer.
      expect(ms).toBeLessThan(soonMs)
      await proxy.heal()
      await publishUntil(ingest.url, site, 403)
      await untilHealth(ingest, 'control-plane', 'pass')
      expect(await ingest.stop()).toBe(0)
      expect(await api.stop()).toBe(0)
      await proxy.close()
    })
  })

  test('an api whose database crashes disconnects its followers, and both continue when it is back', async () => {
    const server = await startPostgres()
    const api = await startApi(await server.createDatabase())
    const ingest = await startIngest(api.internalUrl)
    const site = await makeSite(api.url)
    await untilHealth(ingest, 'control-plane', 'pass')
    await server.restart('immediate')
    await untilPrinted(api, /PostgreSQL is away .*: ingest and readers receive no changes/)
    await untilPrinted(ingest, /the control plane is away .*: cached grants are used for a few seconds/)
    await untilHealth(ingest, 'control-plane', 'pass')
    await untilHealth(api, 'changes', 'pass')
    await publishUntil(ingest.url, site, 202)
    expect(await ingest.stop()).toBe(0)
    expect(await api.stop()).toBe(0)
    await server.stop()
  })
})
