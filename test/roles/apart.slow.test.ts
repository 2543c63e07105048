// The control plane and two ingests as separate processes: changes in one take effect in the others.

import { expect, test } from 'vitest'
import { describeWithPostgres } from '../servers/postgres.ts'
import { undocumentedMetrics } from '../tidy/metrics.ts'
import { call, expectStatus, makeSite, publish, type Site } from '../up/operator.ts'
import { administrator, startApi, startIngest, token, untilHealth } from './processes.ts'

const pack = [{ n: 'count', v: 1 }]

/** Milliseconds until a publish of the site is answered with that status. */
async function untilStatus(url: string, site: Site, status: number): Promise<number> {
  const startedMs = performance.now()
  for (;;) {
    const answer = await publish(url, site, pack)
    if (answer.status === status) return performance.now() - startedMs
  }
}

describeWithPostgres('separate processes', postgres => {
  test('a disconnect is effective within 1 s on two ingests, also on the one that follows another api', async () => {
    const database = await postgres.createDatabase()
    const [first, second] = await Promise.all([startApi(database), startApi(database)])
    const ingests = await Promise.all([startIngest(first.internalUrl), startIngest(second.internalUrl)])
    const site = await makeSite(first.url)
    for (const ingest of ingests) {
      await untilHealth(ingest, 'control-plane', 'pass')
      const answer = await expectStatus(publish(ingest.url, site, pack), 202)
      expect(answer.json?.['id']).toBe('messages-0-0')
    }

    const disconnected = call(first.url, 'DELETE', `/channels/${site.channel}/things/${site.thing}`, { authorization: site.owner })
    const waitedMs = await Promise.all([disconnected, ...ingests.map(({ url }) => untilStatus(url, site, 403))])
    expect(waitedMs[0].status).toBe(204)
    // In a fraction of a second on a quiet machine. A grant whose end is not known is used for a minute.
    for (const ms of waitedMs.slice(1) as number[]) expect(ms).toBeLessThan(30_000)

    const metrics = await call(ingests[0].internalUrl, 'GET', '/metrics')
    expect(metrics.text).toMatch(/component_received_events_total\{component_id="ingest",component_kind="source"\} [1-9]/)
    expect(undocumentedMetrics(metrics.text)).toEqual([])
    expect((await call(ingests[0].url, 'GET', '/metrics')).status).toBe(404)
    for (const role of [first, second, ...ingests]) {
      expect(await role.stop()).toBe(0)
      for (const secret of [token, site.device.slice(6), site.owner.slice(7), administrator.password])
        expect(role.printed()).not.toContain(secret)
    }
  })
})
