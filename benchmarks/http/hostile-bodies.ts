// How long a hostile JSON body of 1 MiB occupies the main thread, from its bytes to the answer, for each schema of a body, compared with JSON.parse of
// the same text. CPU time in a warm process, the mean of all turns. Each body is sent twice: with the largest accepted number of keys and values,
// and with as many as fit into 1 MiB.

import { createLogger } from '../../config/logger.ts'
import { connectSchema } from '../../control-plane/connections/schema.ts'
import { checkEntities } from '../../control-plane/entity.ts'
import { createThingsSchema } from '../../control-plane/things/schema.ts'
import { createServer } from '../../http/server.ts'
import { hostileBodies } from '../../test/http/hostile-bodies.ts'

const bytes = 2 ** 20
const turns = 25

const app = createServer({ logger: createLogger({ level: 'silent', pretty: false }) })
app.post('/things/bulk', { schema: { body: createThingsSchema.body } }, async request => {
  checkEntities(request.body, index => `/body/${index}`)
  return {}
})
app.post('/connect', { schema: { body: connectSchema.body } }, async () => ({}))
await app.ready()

/** CPU time of this thread only, in milliseconds, without other processes and the collector's threads. The thread clock ticks every 4 ms. */
async function meanMs(work: () => unknown): Promise<number> {
  await work()
  const { user, system } = process.threadCpuUsage()
  for (let turn = 0; turn < turns; turn++) await work()
  const after = process.threadCpuUsage()
  return (after.user + after.system - user - system) / 1000 / turns
}

function parse(text: string): void {
  try {
    JSON.parse(text)
  } catch {
    // Some of the bodies are not JSON.
  }
}

console.log(`${'1 MiB of'.padEnd(38)} ${'route'.padEnd(13)} answer   mean ms  JSON.parse ms`)
for (const partsMax of [50_000, Infinity]) {
  for (const { name, make } of hostileBodies) {
    const text = make(bytes, partsMax)
    if (partsMax === Infinity && text === make(bytes, 50_000)) continue
    const payload = Buffer.from(text)
    const parseMs = await meanMs(() => parse(text))
    for (const url of ['/things/bulk', '/connect']) {
      let status = 0
      const answerMs = await meanMs(async () => {
        const answer = await app.inject({ method: 'POST', url, headers: { 'content-type': 'application/json' }, payload })
        status = answer.statusCode
      })
      const title = `${name}${partsMax === Infinity ? ', all' : ''}`
      console.log(`${title.padEnd(38)} ${url.padEnd(13)} ${status} ${answerMs.toFixed(1).padStart(12)} ${parseMs.toFixed(1).padStart(14)}`)
    }
  }
}
