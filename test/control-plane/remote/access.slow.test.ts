// Access control over HTTP against a real control plane: its answers, its changes, and both during an outage.

import { randomUUID } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { cacheAccess } from '../../../control-plane/access/cache.ts'
import {
  type Access,
  type AccessChange,
  AccessUnavailableError,
  deletedChannelsMax,
  storedIdLengthMax,
} from '../../../control-plane/client.ts'
import { openRemoteAccess, type RemoteAccess } from '../../../control-plane/remote/access.ts'
import { ControlPlaneRefusalError } from '../../../control-plane/remote/requests.ts'
import { describeWithPostgres } from '../../servers/postgres.ts'
import { freePort } from '../../servers/process/free-port.ts'
import { openProxy, type Proxy } from '../../servers/process/proxy.ts'
import { call, expectStatus, makeSite, type Site } from '../../up/operator.ts'
import { credentialOf, type Instance, openInstance, token } from '../internal/instance.ts'
import { absentId, controlPlaneOutage, recordingLogger } from '../platform.ts'

interface Remote {
  readonly access: RemoteAccess
  readonly heard: AccessChange[]
  logged(): string
}

/** For tests that are not about the time limits. */
const patient = { answerMsMax: 60_000, streamMsMax: 60_000 }

function openRemote(url: string, shown = token, limits: Partial<typeof patient> = patient): Remote {
  const { logger, logged } = recordingLogger()
  const access = openRemoteAccess({ url, token: shown, outage: controlPlaneOutage(logger), ...limits })
  onTestFinished(() => access.close())
  const heard: AccessChange[] = []
  access.onChange(change => void heard.push(change))
  return { access, heard, logged }
}

const followed = ({ access }: Remote): Promise<void> => expect.poll(() => access.check().then(() => 'followed', String)).toBe('followed')

async function proxied(port: number): Promise<{ proxy: Proxy; url: string }> {
  const proxy = await openProxy({ port })
  onTestFinished(() => proxy.close())
  return { proxy, url: `http://127.0.0.1:${proxy.port}` }
}

function disconnect({ platform }: Instance, { channel, thing, owner }: Site): Promise<unknown> {
  return expectStatus(call(platform.url, 'DELETE', `/channels/${channel}/things/${thing}`, { authorization: owner }), 204)
}

describeWithPostgres('remote access', postgres => {
  const open = async (): Promise<Instance> => openInstance(await postgres.createDatabase())

  test('every request gets the same answer as in process', async () => {
    const instance = await open()
    const site = await makeSite(instance.platform.url)
    const { access } = openRemote(`${instance.internalUrl}/`)
    const { plane } = instance.platform
    const administrator = await instance.platform.administrator()
    const bounded = await makeSite(instance.platform.url)
    const { json } = await call(instance.platform.url, 'GET', '/users/profile', { authorization: bounded.owner })
    const bound = { authorization: administrator, body: { bounded: true } }
    await expectStatus(call(instance.platform.url, 'PUT', `/users/${String(json!['id'])}/bounded`, bound), 204)
    const issue = async (scope: object): Promise<string> => {
      const issued = await expectStatus(call(instance.platform.url, 'POST', '/keys', { authorization: bounded.owner, body: scope }), 201)
      return `Bearer ${String(issued.json!['value'])}`
    }
    const keys = [
      await issue({}),
      await issue({ access: 'read', duration: 3600 }),
      await issue({ access: 'publish', channels: [bounded.channel] }),
    ]
    for (const credential of [
      ...keys,
      site.device,
      bounded.device,
      site.owner,
      administrator,
      'Thing x',
      'Bearer x',
      `Thing ${'é'.repeat(8_000)}`,
    ].map(credentialOf)) {
      for (const channel of [
        site.channel,
        site.channel.toUpperCase(),
        bounded.channel,
        absentId,
        'x',
        'a/ä. b\n',
        '',
        '\0',
        'x'.repeat(storedIdLengthMax),
        'x'.repeat(storedIdLengthMax + 1),
      ]) {
        for (const action of ['publish', 'read'] as const) {
          const [near, far] = await Promise.all([
            plane.access.authorize({ credential, channel, action }),
            access.authorize({ credential, channel, action }),
          ])
          const ends = ({ endsMs, ...rest }: Access & { endsMs?: number }) => ({ rest, endsMs: endsMs ?? 0 })
          expect(ends(far).rest).toEqual(ends(near).rest)
          expect(Math.abs(ends(far).endsMs - ends(near).endsMs)).toBeLessThan(300_000)
        }
      }
    }
    const deleted = await makeSite(instance.platform.url)
    await expectStatus(call(instance.platform.url, 'DELETE', `/channels/${deleted.channel}`, { authorization: deleted.owner }), 204)
    const many = Array.from({ length: deletedChannelsMax - 3 }, () => randomUUID())
    for (const asked of [[], [site.channel, deleted.channel, absentId, ...many]])
      expect(await access.deletedChannels(asked)).toEqual(await plane.access.deletedChannels(asked))
    expect(await cacheAccess(access, { lifetimeMs: 1, entriesMax: 1 }).deletedChannels([deleted.channel])).toEqual([deleted.channel])
    const long = { scheme: 'Thing', secret: 'x'.repeat(100_000) } as const
    expect(await access.authorize({ credential: long, channel: 'x', action: 'read' })).toEqual({
      allowed: false,
      reason: 'unauthenticated',
    })
  })

  test('an unknown key is limited by the count of all instances, at the address in the request', async () => {
    const database = await postgres.createDatabase()
    const instances = [await openInstance(database), await openInstance(database)]
    const accesses = instances.map(({ internalUrl }) => openRemote(internalUrl).access)
    const ask = (nth: number, address?: string): Promise<Access> =>
      accesses[nth % 2]!.authorize({
        credential: { scheme: 'Thing', secret: 'an unknown key' },
        channel: absentId,
        action: 'read',
        ...(address === undefined ? {} : { address }),
      })
    const unauthenticated = { allowed: false, reason: 'unauthenticated' }
    for (let nth = 0; nth < 20; nth++) expect(await ask(nth, '198.51.100.1')).toEqual(unauthenticated)
    for (const nth of [0, 1]) expect(await ask(nth, '198.51.100.1')).toMatchObject({ allowed: false, reason: 'limited' })
    expect(await ask(0, '198.51.100.2')).toEqual(unauthenticated)
    expect(await ask(0)).toEqual(unauthenticated)
  })

  test('changes arrive in their order, after one that says that earlier ones were missed', async () => {
    const instance = await open()
    const remote = openRemote(instance.internalUrl)
    await followed(remote)
    const sites = [await makeSite(instance.platform.url), await makeSite(instance.platform.url)]
    const beforeMs = performance.now()
    for (const site of sites) await disconnect(instance, site)
    await expect.poll(() => remote.heard).toHaveLength(3)
    expect(remote.heard).toEqual([{ kind: 'unheard' }, ...sites.map(({ thing, channel }) => ({ kind: 'disconnected', thing, channel }))])
    expect(remote.access.heardMs()).toBeGreaterThan(beforeMs)
  })

  test('a stream that was cut in the middle of a line is opened again, with a change that drops every grant', async () => {
    const instance = await open()
    const { proxy, url } = await proxied(instance.port)
    const remote = openRemote(url)
    await followed(remote)
    for (const bytes of [1, 10, 35]) {
      const before = remote.heard.length
      await proxy.cutAfter(bytes)
      await expect.poll(() => remote.heard.slice(before)).toEqual([{ kind: 'unheard' }])
    }
    const site = await makeSite(instance.platform.url)
    await disconnect(instance, site)
    await expect.poll(() => remote.heard.at(-1)).toMatchObject({ kind: 'disconnected', thing: site.thing })
  })

  test('while no changes arrive `heardMs` stands still, and a grant is used for no longer than allowed', async () => {
    const instance = await open()
    const site = await makeSite(instance.platform.url)
    const { proxy, url } = await proxied(instance.port)
    const remote = openRemote(url)
    const cached = cacheAccess(remote.access, { lifetimeMs: 60_000, unheardMsMax: 400, entriesMax: 10 })
    const ask = () => cached.authorize({ credential: credentialOf(site.device), channel: site.channel, action: 'publish' })
    await followed(remote)
    expect(await ask()).toMatchObject({ allowed: true })
    proxy.refuse()
    proxy.cut()
    await expect.poll(() => remote.logged()).toContain('the control plane is away')
    const heardMs = remote.access.heardMs()
    await expect.poll(() => ask().catch((error: unknown) => error)).toBeInstanceOf(AccessUnavailableError)
    expect(remote.access.heardMs()).toBe(heardMs)
    await expect(remote.access.check()).rejects.toThrow(/no changes arrive from the control plane at http:/)
    await proxy.heal()
    await followed(remote)
    expect(await ask()).toMatchObject({ allowed: true })
  })

  test('a wrong token is reported to the operator and is not a refusal of the device; no log and no error contains secrets', async () => {
    const instance = await open()
    const remote = openRemote(instance.internalUrl, 'a-wrong-token-of-another')
    const failed = remote.access.authorize({
      credential: { scheme: 'Thing', secret: 'device-secret' },
      channel: absentId,
      action: 'publish',
    })
    await expect(failed).rejects.toThrow(AccessUnavailableError)
    await expect(failed).rejects.toThrow(/refuses the token of this process: set control\.token \(SVC_CONTROL_TOKEN\)/)
    await expect(remote.access.reach()).rejects.toThrow(ControlPlaneRefusalError)
    expect(remote.access.isAccepted()).toBe(false)
    const error = (await failed.catch((error: unknown) => error)) as Error
    for (const text of [remote.logged(), instance.logged(), String(error.stack), String(error.cause)]) {
      expect(text).not.toMatch(/a-wrong-token|device-secret|that-processes-share/)
    }
  })

  test('a request to a silent control plane fails after 2 s', async () => {
    const instance = await open()
    const { proxy, url } = await proxied(instance.port)
    const { access } = openRemote(url, token, {})
    proxy.halfOpen()
    const startedMs = performance.now()
    const request = { credential: { scheme: 'Thing', secret: 'x' }, channel: absentId, action: 'publish' } as const
    const failed = access.authorize(request)
    await expect(failed).rejects.toThrow(AccessUnavailableError)
    await expect(failed).rejects.toThrow(/no answer came in time|timeout/i)
    expect(performance.now() - startedMs).toBeGreaterThan(1_900)
    // Without the limit it would wait for undici's, of five minutes.
    expect(performance.now() - startedMs).toBeLessThan(30_000)
  })
})

test('without a control plane it is unavailable immediately, and closing does not wait for the next attempt', async () => {
  const port = await freePort()
  const remote = openRemote(`http://127.0.0.1:${port}`)
  const request = { credential: { scheme: 'Thing', secret: 'x' }, channel: absentId, action: 'publish' } as const
  await expect(remote.access.authorize(request)).rejects.toThrow(
    `the control plane at http://127.0.0.1:${port} is unavailable: connect ECONNREFUSED`,
  )
  await expect(remote.access.reach()).rejects.toThrow(/is unavailable: connect ECONNREFUSED/)
  expect(remote.access.isAccepted()).toBe(true)
  expect(remote.access.heardMs()).toBe(-Infinity)
  // Once some attempts have failed, the next comes half a second later or more.
  for (let attempt = 0; attempt < 4; attempt++) await expect(remote.access.reach()).rejects.toThrow(/ECONNREFUSED/)
  const closed = remote.access.close().then(() => true)
  let isClosed = false
  // Counted in timers of this process: time in which the whole machine stands still does not count.
  for (let centisecond = 0; centisecond < 20 && !isClosed; centisecond++) isClosed = await Promise.race([closed, wait(10, false)])
  expect(isClosed).toBe(true)
})
