// Health, liveness, readiness and metrics.

import { Counter, Registry } from 'prom-client'
import { afterEach, expect, onTestFinished, test, vi } from 'vitest'
import { countRefusals } from '../../http/error-answer.ts'
import { warning } from '../../http/health/checks.ts'
import { type HealthOptions, healthRoutes } from '../../http/health/health.ts'
import { memoryMetrics } from '../../roles/process-metrics.ts'
import { startServer, type TestServer } from './test-server.ts'

const servers: TestServer[] = []
afterEach(() => Promise.all(servers.splice(0).map(({ app }) => app.close())))

async function start(options: Partial<HealthOptions>): Promise<TestServer> {
  const all: HealthOptions = { version: '1.2.3', checks: {}, ready: () => true, registry: new Registry(), ...options }
  const server = await startServer({}, app => healthRoutes(app, all))
  servers.push(server)
  return server
}

test('healthy if every check passes, with its output', async () => {
  const server = await start({ checks: { database: async () => 'PostgreSQL 18', log: async () => undefined } })
  const { status, headers, body } = await server.ask('/health')
  expect([status, headers.get('content-type')]).toEqual([200, 'application/health+json; charset=utf-8'])
  expect(body).toMatchObject({
    status: 'pass',
    version: '1.2.3',
    commit: '',
    description: 'Sluice device messaging',
    build_time: '',
    checks: { database: [{ status: 'pass', output: 'PostgreSQL 18' }], log: [{ status: 'pass' }] },
  })
})

test('a check that warns is healthy, and says no more than that the log does', async () => {
  const server = await start({ checks: { log: async () => undefined, partitions: async () => warning } })
  const { status, body } = await server.ask('/health')
  expect([status, body]).toMatchObject([
    200,
    { status: 'warn', checks: { log: [{ status: 'pass' }], partitions: [{ status: 'warn', output: 'see the log' }] } },
  ])
  const failing = await start({
    checks: {
      partitions: async () => warning,
      async store() {
        throw new Error('away')
      },
    },
  })
  expect((await failing.ask('/health')).body).toMatchObject({ status: 'fail', checks: { partitions: [{ status: 'warn' }] } })
})

test('503 if a check fails or does not answer in time; the reason is in the log and not in the answer', async () => {
  const checks = {
    database: async () => {
      throw new Error('hidden')
    },
    log: () => new Promise<undefined>(() => {}),
    disk: async () => undefined,
  }
  const server = await start({ checks, timeoutMs: 100 })
  const { status, headers, body } = await server.ask('/health')
  expect([status, headers.get('retry-after')]).toEqual([503, '1'])
  expect(body).toMatchObject({
    status: 'fail',
    checks: {
      database: [{ status: 'fail', output: 'see the log' }],
      log: [{ status: 'fail', output: 'no answer within 100 ms' }],
      disk: [{ status: 'pass' }],
    },
  })
  expect(JSON.stringify(body)).not.toContain('hidden')
})

test('a hundred requests during an outage run the checks once, and log nothing', async () => {
  // They run again after a second, which must not pass on a busy machine.
  vi.useFakeTimers({ toFake: ['performance'] })
  onTestFinished(() => void vi.useRealTimers())
  let asked = 0
  const database = (): Promise<never> => {
    asked++
    return Promise.reject(new Error('hidden'))
  }
  const server = await start({ checks: { database, log: async () => undefined } })
  const statuses = await Promise.all(Array.from({ length: 100 }, async () => (await server.ask('/health')).status))
  expect([new Set(statuses), asked]).toEqual([new Set([503]), 1])
  expect(server.lines()).toEqual([])
})

test('alive as long as it answers; ready when it reports so', async () => {
  let ready = false
  const server = await start({ ready: () => ready })
  expect((await server.ask('/livez')).status).toBe(200)
  const before = await server.ask('/readyz')
  expect([before.status, before.body, before.headers.get('retry-after')]).toEqual([503, { status: 'fail' }, '1'])
  ready = true
  expect((await server.ask('/readyz')).body).toEqual({ status: 'pass' })
})

test('metrics are those of the registry, in the format of Prometheus', async () => {
  const registry = new Registry()
  new Counter({ name: 'things_total', help: 'Things.', registers: [registry] }).inc(3)
  const { url } = await start({ registry })
  const response = await fetch(`${url}/metrics`)
  expect(response.headers.get('content-type')).toMatch(/^text\/plain; version=0\.0\.4/)
  expect(await response.text()).toContain('things_total 3\n')
})

test('refused requests are counted by route and status, without text of clients', async () => {
  const registry = new Registry()
  const server = await startServer({ countRefusal: countRefusals(registry, 'api') })
  servers.push(server)
  for (const path of ['/things', '/things/1', '/things/2', '/throws/conflict', '/absent?secret', '/%zz']) await server.ask(path)
  const { values } = await registry.getSingleMetric('http_server_refused_requests_total')!.get()
  const component = { component_id: 'api', component_kind: 'source', method: 'GET' }
  expect(values).toEqual([
    { value: 2, labels: { ...component, path: '/things/:id', status: 400 } },
    { value: 1, labels: { ...component, path: '/throws/:what', status: 409 } },
    { value: 1, labels: { ...component, path: '', status: 404 } },
    { value: 1, labels: { ...component, path: '', status: 400 } },
  ])
})

test.each([
  ['a container that is nearly full', 1_000, 950, 0.95],
  ['a large machine, of which the heap is the smaller part', 0, 1_000, expect.closeTo(0.1, 0)],
])('the memory that is used is that of %s', async (_what, limit, used, expected) => {
  vi.spyOn(process, 'constrainedMemory').mockReturnValue(limit)
  vi.spyOn(process.memoryUsage, 'rss').mockReturnValue(used)
  const registry = new Registry()
  memoryMetrics(registry)
  expect((await registry.getSingleMetric('memory_used_ratio')!.get()).values).toEqual([{ value: expected, labels: {} }])
})
