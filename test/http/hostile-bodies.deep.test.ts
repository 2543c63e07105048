// The server's work for a hostile JSON body is in proportion to its size: counted by the engine, block by block, and not timed.
// benchmarks/http/hostile-bodies.ts measures the time.

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createLogger } from '../../config/logger.ts'
import { connectSchema } from '../../control-plane/connections/schema.ts'
import { checkEntities } from '../../control-plane/entity.ts'
import { createThingsSchema } from '../../control-plane/things/schema.ts'
import { createServer, type HttpServer } from '../../http/server.ts'
import { countWork } from '../work-counter.ts'
import { hostileBodies } from './hostile-bodies.ts'

const bytes = 2 ** 20
/** Counts the code that walks parsed values: the validator, which is compiled at the start and in no file, and the code before and after it. */
const workDone = countWork(
  url => url === '' || /\/(http\/requests\/validation|config\/options\/allowed|control-plane\/(entity|requests\/text))\.ts/.test(url),
)

let app: HttpServer
beforeAll(async () => {
  app = createServer({ logger: createLogger({ level: 'silent', pretty: false }) })
  app.post('/things', { schema: { body: createThingsSchema.body } }, async request => {
    checkEntities(request.body, index => `/body/${index}`)
    return {}
  })
  app.post('/connect', { schema: { body: connectSchema.body } }, async () => ({}))
  await app.ready()
})
afterAll(() => app.close())

async function workOf(url: string, payload: string): Promise<number> {
  await workDone()
  const { statusCode } = await app.inject({ method: 'POST', url, headers: { 'content-type': 'application/json' }, payload })
  // Unknown keys are not a fault.
  expect([200, 400, 413]).toContain(statusCode)
  return workDone()
}

describe.each([
  ['as many keys and values as are taken', 50_000],
  ['as many as there is room for', Infinity],
])('1 MiB with %s', (_name, partsMax) => {
  test.each(hostileBodies.map(({ name, make }) => [name, make] as const))('%s', async (_name, make) => {
    const body = make(bytes, partsMax)
    for (const path of ['/things', '/connect']) expect(await workOf(path, body), path).toBeLessThan(bytes / 4)
  })
})
