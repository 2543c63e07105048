// A process that stops during mappings, to be killed there: `mapping-process.ts <url or folder> <user>:<step> …`.
//
// For each step it requests a mapping of the external id `killed-<step>` for the user, which stops there. Once all have stopped, it prints `reached`.

import { createLogger } from '../../../config/logger.ts'
import { deriveKey } from '../../../config/secrets.ts'
import type { UserId } from '../../../control-plane/ids.ts'
import { openControlPlane } from '../../../control-plane/index.ts'
import { openTokens } from '../../../control-plane/tokens/store.ts'
import { openEmbedded } from '../../../database/embedded/embedded.ts'
import { openServer } from '../../../database/server.ts'
import { createServer } from '../../../http/server.ts'
import { ownCertificates } from '../certificates/certificates-options.ts'
import { fullLayout, openSteps } from './steps.ts'

const [where = '', ...stops] = process.argv.slice(2)
const database = where.startsWith('postgres://')
  ? await openServer({ url: where, applicationName: 'sluice-test', connectionsMax: stops.length + 1 })
  : await openEmbedded({ folder: where })
let reached = (): void => undefined
const steps = openSteps(database, () => {
  reached()
  return new Promise(() => undefined)
})
const masterKey = Buffer.alloc(32, 7)
const tokens = { lifetimeSeconds: 3600 }
const logger = createLogger({ level: 'silent', pretty: false })
const plane = await openControlPlane({
  database: steps.database,
  masterKeys: [masterKey],
  options: {
    users: { allowSelfRegister: true, registrationsPerHour: 0, boundSelfRegistered: false },
    tokens,
    audit: { retentionDays: 365 },
    policies: { store: 'relational' },
    certificates: ownCertificates,
    compatibility: 'none',
    provisioning: { layout: fullLayout, externalKeyBytesMin: 8 },
  },
  logger,
})
const app = createServer({ logger })
await app.register(plane.routes)
const issued = openTokens([deriveKey(masterKey, 'tokens')], tokens)
setInterval(() => undefined, 1000)
for (const stop of stops) {
  const [user, step = ''] = stop.split(':')
  const token = await issued.issue({ user: user as UserId, version: 1 })
  const stopped = new Promise<void>(resolve => void (reached = resolve))
  steps.arm(Number(step))
  const payload = { external_id: `killed-${step}`, external_key: 'external key' }
  const answered = app.inject({ method: 'POST', url: '/mapping', headers: { authorization: `Bearer ${token}` }, payload })
  await Promise.race([stopped, answered.then(({ statusCode }) => Promise.reject(new Error(`step ${step}: ${statusCode}`)))])
}
console.log('reached')
