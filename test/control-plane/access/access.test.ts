// Access control for ingest and readers: which credential gives access to which channel, and when an access ends.

import { X509Certificate } from 'node:crypto'
import { afterEach, beforeAll, expect, test } from 'vitest'
import { openAccess } from '../../../control-plane/access/access.ts'
import { openAuthorization } from '../../../control-plane/access/authorization.ts'
import { openFailedAttempts } from '../../../control-plane/access/failed-attempts.ts'
import { openAccessChanges } from '../../../control-plane/access-changes.ts'
import {
  type Access,
  type AccessChange,
  AccessUnavailableError,
  type Credential,
  certificateCredential,
  noChannel,
  storedIdLengthMax,
} from '../../../control-plane/client.ts'
import { openApiKeys } from '../../../control-plane/keys/store.ts'
import { openRelationalPolicies } from '../../../control-plane/policies/relational.ts'
import { openUnknownKeys } from '../../../control-plane/requests/unknown-keys.ts'
import { openThingKeys } from '../../../control-plane/things/keys.ts'
import { openTokens } from '../../../control-plane/tokens/store.ts'
import { type Database, DatabaseError } from '../../../database/database.ts'
import { call, makeSite, type Site } from '../../up/operator.ts'
import { absentId, describePlatform, masterKey, recordingLogger, writesOn } from '../platform.ts'

describePlatform('access', platform => {
  let site: Site
  let foreign: Site
  let owner: string
  let expires: number
  beforeAll(async () => {
    site = await makeSite(platform().url)
    foreign = await makeSite(platform().url)
    ;({ sub: owner, exp: expires } = JSON.parse(Buffer.from(site.owner.split('.')[1]!, 'base64url').toString()))
  })
  const stops: (() => void)[] = []
  afterEach(() => {
    for (const stop of stops.splice(0)) stop()
  })

  function credentialOf(authorization: string): Credential {
    const [scheme, secret] = authorization.split(' ') as ['Thing' | 'Bearer', string]
    return { scheme, secret }
  }
  const ask = (authorization: string, channel: string, action: 'publish' | 'read'): Promise<Access> =>
    platform().plane.access.authorize({ credential: credentialOf(authorization), channel, action })

  const accessOn = (database: Database, authority: 'builtin' | 'step-ca' = 'builtin') =>
    openAccess({
      database,
      thingKeys: openThingKeys([masterKey]),
      tokens: openTokens([masterKey], { lifetimeSeconds: 60 }),
      accessChanges: openAccessChanges(recordingLogger().logger),
      unknownKeys: openUnknownKeys(openFailedAttempts(platform().database, masterKey)),
      apiKeys: openApiKeys(platform().database, writesOn(platform().database)),
      certificates: { authority },
      authorization: openAuthorization(openRelationalPolicies(platform().database)),
    })

  const unauthenticated = { allowed: false, reason: 'unauthenticated' }
  const forbidden = { allowed: false, reason: 'forbidden' }
  /** Of a thing whose key is valid. */
  const forbiddenThing = () => ({ ...forbidden, publisher: site.thing, owner })

  test('deleted channels are known', async () => {
    const { access } = platform().plane
    const { owner, channel } = await makeSite(platform().url)
    const asked = [channel, site.channel, absentId, 'x', '', "' OR true --"]
    expect(await access.deletedChannels(asked)).toEqual([])
    await call(platform().url, 'DELETE', `/channels/${channel}`, { authorization: owner })
    expect(await access.deletedChannels(asked)).toEqual([channel])
    const lost = new DatabaseError('the connection failed', { sqlState: '', cause: undefined })
    const broken: Database = { ...platform().database, query: () => Promise.reject(lost) }
    await expect(accessOn(broken).deletedChannels([channel])).rejects.toBeInstanceOf(AccessUnavailableError)
  })

  test('a thing may publish to and read from the channels it is connected to', async () => {
    const granted = { allowed: true, publisher: site.thing, owner }
    expect(await ask(site.device, site.channel, 'publish')).toEqual(granted)
    expect(await ask(site.device, site.channel, 'read')).toEqual(granted)
    expect(await ask(site.device, site.channel.toUpperCase(), 'read')).toEqual(granted)
  })

  test('a channel that it is not connected to, an absent one and an invalid id get the same refusal', async () => {
    for (const channel of [foreign.channel, absentId, 'x', '', "' OR true --"])
      expect(await ask(site.device, channel, 'publish')).toEqual(forbiddenThing())
  })

  test('an unknown key is unauthenticated, whatever the channel', async () => {
    for (const key of [absentId, 'x', site.thing, '\0', 'x'.repeat(100_000)]) {
      expect(await ask('Thing x', site.channel, 'publish')).toEqual(unauthenticated)
      expect(
        await platform().plane.access.authorize({ credential: { scheme: 'Thing', secret: key }, channel: 'x', action: 'read' }),
      ).toEqual(unauthenticated)
    }
  })

  test('an unknown key is limited after twenty failures within a minute, only from its address, and a valid key never is', async () => {
    const { access } = platform().plane
    const ask = (secret: string, address?: string): Promise<Access> =>
      access.authorize({
        credential: { scheme: 'Thing', secret },
        channel: site.channel,
        action: 'publish',
        ...(address === undefined ? {} : { address }),
      })
    for (let nth = 0; nth < 20; nth++) expect(await ask(absentId, '2001:db8::1')).toEqual(unauthenticated)
    const limited = await ask(absentId, '2001:db8::2')
    expect(limited).toEqual({ allowed: false, reason: 'limited', leftMs: expect.any(Number) as number })
    expect((limited as { leftMs: number }).leftMs).toBeGreaterThan(30_000)
    expect(await ask(absentId, '2001:db8:0:1::1')).toEqual(unauthenticated)
    expect(await ask(absentId)).toEqual(unauthenticated)
    expect(await ask('x', '2001:db8::1')).toEqual(unauthenticated)
    expect(await ask(site.device.slice('Thing '.length), '2001:db8::1')).toMatchObject({ allowed: true })
  })

  test('a flood of unknown keys creates at most a hundred rows a second', async () => {
    const count = async (): Promise<number> =>
      Number((await platform().database.query<{ count: bigint }>('SELECT count(*) AS count FROM control_plane.failed_attempts'))[0]!.count)
    const before = await count()
    const startedMs = performance.now()
    const ask = (nth: number): Promise<Access> =>
      platform().plane.access.authorize({
        credential: { scheme: 'Thing', secret: `key ${nth}` },
        channel: site.channel,
        action: 'read',
        address: '198.51.100.7',
      })
    for (const access of await Promise.all(Array.from({ length: 500 }, (_, nth) => ask(nth)))) expect(access).toEqual(unauthenticated)
    // Including the rest of the second that had begun before.
    const seconds = Math.floor((performance.now() - startedMs) / 1000) + 2
    expect((await count()) - before).toBeLessThanOrEqual(100 * seconds)
  })

  test("the channel's owner may read the whole channel until their token expires, and may not publish", async () => {
    expect(await ask(site.owner, site.channel, 'read')).toEqual({ allowed: true, publisher: null, owner, endsMs: expires * 1000 })
    expect(await ask(site.owner, site.channel, 'publish')).toEqual(forbidden)
  })

  test('another user and the administrator may not read it', async () => {
    expect(await ask(foreign.owner, site.channel, 'read')).toEqual(forbidden)
    expect(await ask(await platform().administrator(), site.channel, 'read')).toEqual(forbidden)
    for (const channel of [absentId, 'x']) expect(await ask(site.owner, channel, 'read')).toEqual(forbidden)
  })

  const nilId = '00000000-0000-0000-0000-000000000000'
  test('a channel that no user has or had is read by administrators, who may not publish to it, and by no one else', async () => {
    const administrator = await platform().administrator()
    for (const channel of ['x', 'plant/1. ä', "' OR true --", 'x'.repeat(storedIdLengthMax), absentId, nilId]) {
      const granted = { allowed: true, publisher: null, owner: expect.any(String) as string, endsMs: expect.any(Number) as number }
      expect(await ask(administrator, channel, 'read')).toEqual(granted)
      expect(await ask(administrator, channel, 'publish')).toEqual(forbidden)
      expect(await ask(site.owner, channel, 'read')).toEqual(forbidden)
      expect(await ask(site.device, channel, 'read')).toEqual(forbiddenThing())
    }
    const deleted = await makeSite(platform().url)
    await call(platform().url, 'DELETE', `/channels/${deleted.channel}`, { authorization: deleted.owner })
    for (const channel of ['a\0b', 'x'.repeat(storedIdLengthMax + 1), noChannel, deleted.channel])
      expect(await ask(administrator, channel, 'read')).toEqual(forbidden)
  })

  test('a user who is no longer an administrator is refused, with their API keys, and listeners are notified', async () => {
    const { id, token } = await platform().user()
    const authorization = await platform().administrator()
    const { json } = await call(platform().url, 'POST', '/keys', { authorization: token, body: { name: 'dashboard' } })
    const apiKey = `Bearer ${String(json!['value'])}`
    const body = { subjects: [id], object: 'authorities', policies: ['member'] }
    expect(await ask(token, 'x', 'read')).toEqual(forbidden)
    expect((await call(platform().url, 'POST', '/policies', { authorization, body })).status).toBe(201)
    for (const credential of [token, apiKey]) expect(await ask(credential, 'x', 'read')).toMatchObject({ allowed: true, owner: id })
    const heard: AccessChange[] = []
    stops.push(platform().plane.access.onChange(change => void heard.push(change)))
    expect((await call(platform().url, 'PUT', '/policies', { authorization, body })).status).toBe(204)
    expect(heard).toEqual([{ kind: 'user', user: id }])
    for (const credential of [token, apiKey]) expect(await ask(credential, 'x', 'read')).toEqual(forbidden)
  })

  test('an invalid token, and a key in its place, are unauthenticated', async () => {
    for (const secret of ['x', `${site.owner.slice(7)}x`, site.device.slice(6)]) {
      expect(await ask(`Bearer ${secret}`, site.channel, 'read')).toEqual(unauthenticated)
    }
    expect(await ask(`Thing ${site.owner.slice(7)}`, site.channel, 'read')).toEqual(unauthenticated)
  })

  test("a certificate gives the same access as its thing's key until it is revoked, and one of an authority that is not chosen gives none", async () => {
    const { owner: authorization, thing, channel } = await makeSite(platform().url)
    const body = { thing_id: thing, key_type: 'ec' }
    const { json } = await call(platform().url, 'POST', '/certs', { authorization, body })
    const credential = certificateCredential(new X509Certificate(String(json!['ClientCert'])))
    const opened = (on = channel) => platform().plane.access.authorize({ credential, channel: on, action: 'publish' })
    expect(await opened()).toEqual({ allowed: true, publisher: thing, owner: expect.any(String), endsMs: expect.any(Number) })
    expect(await opened(foreign.channel)).toEqual({
      ...forbidden,
      publisher: thing,
      owner: expect.any(String),
      endsMs: expect.any(Number),
    })
    const externalAccess = accessOn(platform().database, 'step-ca')
    expect(await externalAccess.authorize({ credential, channel, action: 'publish' })).toEqual(unauthenticated)
    for (const secret of ['', ':', credential.secret.slice(0, -1), credential.secret.split(':')[0]!])
      expect(
        await platform().plane.access.authorize({ credential: { scheme: 'Certificate', secret }, channel, action: 'publish' }),
      ).toEqual(unauthenticated)
    await call(platform().url, 'DELETE', `/certs/${thing}`, { authorization })
    expect(await opened()).toEqual(unauthenticated)
  })

  test('the id of a thing, which a broker has admitted, gives the access of its key', async () => {
    const { owner: authorization, thing, channel } = await makeSite(platform().url)
    const opened = (secret: string, on = channel) =>
      platform().plane.access.authorize({ credential: { scheme: 'ThingId', secret }, channel: on, action: 'publish' })
    expect(await opened(thing)).toEqual({ allowed: true, publisher: thing, owner: expect.any(String) })
    expect(await opened(thing, foreign.channel)).toEqual({ ...forbidden, publisher: thing, owner: expect.any(String) })
    for (const secret of ['', 'x', absentId, channel]) expect(await opened(secret)).toEqual(unauthenticated)
    await call(platform().url, 'DELETE', `/channels/${channel}/things/${thing}`, { authorization })
    expect(await opened(thing)).toMatchObject(forbidden)
  })

  test('each request is one query', async () => {
    let asked = 0
    const { database } = platform()
    const counted = {
      ...database,
      query: (...query: Parameters<typeof database.query>) => (asked++, database.query(...query)),
    } as typeof database
    const access = accessOn(counted)
    expect(await access.authorize({ credential: credentialOf(site.device), channel: site.channel, action: 'publish' })).toMatchObject({
      allowed: true,
    })
    expect(asked).toBe(1)
  })

  test('a disconnected thing is refused when the disconnect is answered, and listeners are notified before', async () => {
    const { device, thing, channel, owner } = await makeSite(platform().url)
    const heard: AccessChange[] = []
    const refusedWhenHeard: Promise<Access>[] = []
    stops.push(
      platform().plane.access.onChange(change => {
        heard.push(change)
        refusedWhenHeard.push(ask(device, channel, 'publish'))
      }),
    )
    let heardBeforeAnswer = false
    platform().app.server.once('request', (_request, response) => {
      const writeHead = response.writeHead.bind(response)
      response.writeHead = ((...head: Parameters<typeof writeHead>) => {
        heardBeforeAnswer = heard.length === 1
        return writeHead(...head)
      }) as typeof writeHead
    })
    await call(platform().url, 'DELETE', `/channels/${channel}/things/${thing}`, { authorization: owner })
    expect(heard).toEqual([{ kind: 'disconnected', thing, channel }])
    expect(heardBeforeAnswer).toBe(true)
    // Asked from inside the listener: the change was committed by then.
    expect(await Promise.all(refusedWhenHeard)).toEqual([{ ...forbidden, publisher: thing, owner: expect.any(String) }])
  })

  test('a refused disconnect announces no change', async () => {
    const heard: AccessChange[] = []
    stops.push(platform().plane.access.onChange(change => void heard.push(change)))
    expect(
      (await call(platform().url, 'DELETE', `/channels/${site.channel}/things/${site.thing}`, { authorization: foreign.owner })).status,
    ).toBe(403)
    expect(heard).toEqual([])
    expect(await ask(site.device, site.channel, 'publish')).toMatchObject({ allowed: true })
  })

  test('a removed listener is not called', async () => {
    const { thing, channel, owner } = await makeSite(platform().url)
    const heard: AccessChange[] = []
    platform().plane.access.onChange(change => void heard.push(change))()
    await call(platform().url, 'DELETE', `/channels/${channel}/things/${thing}`, { authorization: owner })
    expect(heard).toEqual([])
  })

  test('while the database is away the answer is neither a grant nor a refusal', async () => {
    const lost = new DatabaseError('the connection failed', { sqlState: '', cause: undefined })
    const { database } = platform()
    const away = { ...database, query: () => Promise.reject(lost) } as typeof database
    const access = accessOn(away)
    const asked = access.authorize({ credential: credentialOf(site.device), channel: site.channel, action: 'publish' })
    await expect(asked).rejects.toBeInstanceOf(AccessUnavailableError)
    await expect(asked).rejects.toMatchObject({ cause: lost })
  })
})

test('a listener that throws is logged, and the others are still called', () => {
  const { logger, logged } = recordingLogger()
  const accessChanges = openAccessChanges(logger)
  const heard: AccessChange[] = []
  accessChanges.onChange(() => {
    throw new Error('broken listener')
  })
  accessChanges.onChange(change => void heard.push(change))
  accessChanges.emit({ kind: 'channel', channel: absentId })
  expect(heard).toEqual([{ kind: 'channel', channel: absentId }])
  expect(logged()).toContain('broken listener')
  accessChanges.close()
  accessChanges.emit({ kind: 'channel', channel: absentId })
  expect(heard).toHaveLength(1)
})
