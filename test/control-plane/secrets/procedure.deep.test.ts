// The master key is replaced step by step while two instances serve clients: no request fails, and afterwards the old key is refused.

import { expect, test } from 'vitest'
import type { MasterKeys } from '../../../config/secrets.ts'
import { readRotation, rotateSecrets } from '../../../control-plane/secrets/rotation.ts'
import type { Database } from '../../../database/database.ts'
import { openServer } from '../../../database/server.ts'
import { describeWithPostgres } from '../../servers/postgres.ts'
import { type Answer, call, expectStatus } from '../../up/operator.ts'
import { masterKey as oldKey, openPlatform, type Platform, type User, writesOn } from '../platform.ts'

const newKey = Buffer.alloc(32, 8)

/** What the clients request: a user's thing, connected to a channel. */
interface Owned {
  readonly user: User
  readonly thing: string
  readonly key: string
  readonly channel: string
}

interface Serving {
  readonly platform: Platform
  readonly database: Database
  /** Requests under way, which a load balancer would let finish before it removes the instance. */
  readonly underWay: Set<Promise<unknown>>
}

describeWithPostgres('a new master key', postgres => {
  test('in four steps with two instances: no request of a client fails, and then the new key alone is enough', async () => {
    const url = await postgres.createDatabase()
    const serving: Serving[] = []
    const start = async (masterKeys: MasterKeys): Promise<Serving> => {
      const database = await openServer({ url, applicationName: 'sluice-test', connectionsMax: 4, prepares: true })
      return { database, platform: await openPlatform(database, { masterKeys }), underWay: new Set() }
    }
    const stop = async (instance: Serving): Promise<void> => {
      serving.splice(serving.indexOf(instance), 1)
      await Promise.all(instance.underWay)
      await instance.platform.close()
      await instance.database.close()
    }
    const restartAll = async (masterKeys: MasterKeys): Promise<void> => {
      for (const instance of serving.slice()) {
        await stop(instance)
        serving.push(await start(masterKeys))
        await clients.rounds(3)
      }
    }
    const isRefused = async (masterKeys: MasterKeys): Promise<boolean> => {
      const database = await openServer({ url, applicationName: 'sluice-test', connectionsMax: 1 })
      try {
        return await openPlatform(database, { masterKeys }).then(
          platform => platform.close().then(() => false),
          (error: Error) => /encrypted with another master key/.test(error.message),
        )
      } finally {
        await database.close()
      }
    }

    serving.push(await start([oldKey]), await start([oldKey]))
    const { platform } = serving[0]!
    const owned = await makeOwned(platform)
    const many = Array.from({ length: 1_000 }, () => ({ name: 'one of many' }))
    for (let batch = 0; batch < 3; batch++)
      await expectStatus(call(platform.url, 'POST', '/things/bulk', { authorization: owned.user.token, body: many }), 201)
    const clients = startClients(serving, owned)
    await clients.rounds(3)

    await restartAll([oldKey, newKey])
    await restartAll([newKey, oldKey])
    await clients.signInAgain()
    expect(await isRefused([newKey])).toBe(true)

    const { database } = serving[0]!
    const masterKeys = [newKey, oldKey] as const
    const shown: [number, number][] = []
    const rewritten = await rotateSecrets({ database, writes: writesOn(database), masterKeys, onProgress: (...of) => shown.push(of) })
    expect(rewritten).toBeGreaterThan(3_000)
    expect(shown.length).toBeGreaterThan(3)
    const { counts, masterKeyId, previous } = await readRotation(database, masterKeys)
    // The clients gave previous keys a grace period, and then ended it.
    expect([counts.map(count => count.masterKeyId), previous]).toEqual([[masterKeyId], { things: 0, until: undefined }])
    await clients.rounds(3)

    await restartAll([newKey])
    await clients.rounds(3)
    expect(await clients.stop()).toEqual([])
    expect([await isRefused([oldKey]), await isRefused([newKey])]).toEqual([true, false])
    const sql = `SELECT objects FROM control_plane.audit WHERE action = 'secrets.rotate'`
    expect(await serving[0]!.database.query(sql)).toEqual([{ objects: [masterKeyId] }])
    for (const instance of serving.slice()) await stop(instance)
  })
})

async function makeOwned(platform: Platform): Promise<Owned> {
  const user = await platform.user()
  const post = async (path: string, body: object) => (await call(platform.url, 'POST', path, { authorization: user.token, body })).json!
  const [{ id: thing, key }] = (await post('/things/bulk', [{ name: 'sensor' }]))['things'] as [{ id: string; key: string }]
  const [{ id: channel }] = (await post('/channels/bulk', [{ name: 'site' }]))['channels'] as [{ id: string }]
  await post('/connect', { channel_ids: [channel], thing_ids: [thing] })
  return { user, thing, key, channel }
}

interface Clients {
  /** Resolves when each client has sent that many more requests. */
  rounds(count: number): Promise<void>
  /** Tokens that the old key signed end with it: from now on the clients use tokens signed with the current key. */
  signInAgain(): Promise<void>
  /** @returns what failed */
  stop(): Promise<string[]>
}

/** All requests of a device and a user, sent to any running instance; what one instance created is requested from another. */
function startClients(serving: readonly Serving[], { user, thing, key, channel }: Owned): Clients {
  const failures: string[] = []
  const stopping = new AbortController()
  let rounds = 0
  let { token } = user

  function at<Result>(work: (platform: Platform) => Promise<Result>): Promise<Result> {
    const { platform, underWay } = serving[Math.floor(Math.random() * serving.length)]!
    const asked = work(platform)
    const forget = (): void => void underWay.delete(settled)
    const settled: Promise<void> = asked.then(forget, forget)
    underWay.add(settled)
    return asked
  }
  const ask = (status: number, method: string, path: string, body?: object, authorization = token): Promise<Answer> =>
    at(({ url }) => expectStatus(call(url, method, path, { authorization, ...(body === undefined ? {} : { body }) }), status))
  const signIn = async (): Promise<string> => {
    const body = { email: user.email, password: user.password }
    const { json } = await at(({ url }) => expectStatus(call(url, 'POST', '/tokens', { body }), 201))
    return `Bearer ${json!['token'] as string}`
  }
  const authorize = (secret: string) =>
    at(({ plane }) => plane.access.authorize({ credential: { scheme: 'Thing', secret }, channel, action: 'publish' }))
  const is = (what: string, right: boolean): void => void (right || failures.push(what))

  const kinds: Record<string, () => Promise<void>> = {
    async 'a device publishes'() {
      is('the device', (await authorize(key)).allowed)
    },
    async 'a user signs in, and uses the token'() {
      await ask(200, 'GET', '/things', undefined, await signIn())
    },
    async 'a user reads things by a token that they have had'() {
      const { json, headers } = await ask(200, 'GET', `/things/${thing}`)
      is('what is shown of the thing', json!['key'] === key && headers.get('etag') === '"1"')
      await ask(200, 'GET', '/things?limit=100')
    },
    async 'a thing is made, its key is used and replaced'() {
      const { json } = await ask(201, 'POST', '/things/bulk', [{ name: 'made' }])
      const [{ id, key: first }] = json!['things'] as [{ id: string; key: string }]
      is('the key of a thing that was made', (await reasonOf(first)) === 'forbidden')
      const next = (await ask(200, 'PATCH', `/things/${id}/key`, { grace_seconds: 60 })).json!['key'] as string
      is('its next key', (await reasonOf(next)) === 'forbidden')
      is('its previous key', (await reasonOf(first)) === 'forbidden')
      await ask(200, 'PATCH', `/things/${id}/key`, {})
      is('its last key, which has ended', (await reasonOf(next)) === 'unauthenticated')
    },
  }
  /** `forbidden` means that the key belongs to a thing that is not connected. */
  async function reasonOf(secret: string): Promise<string> {
    const access = await authorize(secret)
    return access.allowed ? 'allowed' : access.reason
  }

  async function run(kind: string): Promise<void> {
    while (!stopping.signal.aborted) {
      await kinds[kind]!().catch((error: unknown) => failures.push(`${kind}: ${String(error)}`))
      rounds++
    }
  }
  const running = Object.keys(kinds).map(run)

  return {
    async rounds(count) {
      const until = rounds + count * running.length
      await expect.poll(() => rounds).toBeGreaterThanOrEqual(until)
    },
    async signInAgain() {
      token = await signIn()
    },
    async stop() {
      stopping.abort()
      await Promise.all(running)
      return failures
    },
  }
}
