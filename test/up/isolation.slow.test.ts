// No caller reads, publishes or administers without permission: every route of a running platform with every kind of caller. The audit log has what
// they changed, and no secret leaks.

import { randomUUID } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { parseMasterKeys } from '../../config/secrets.ts'
import { openEmbedded } from '../../database/embedded/embedded.ts'
import { makeCsr } from '../control-plane/certificates/openssl.ts'
import { type Asker, openAsker } from '../control-plane/isolation/asker.ts'
import { ask, askAll, asked, type Snapshot, seenOf } from '../control-plane/isolation/matrix.ts'
import { askAllOverMqtt, askOverMqtt, isGranted, type MqttSite, mqttRows } from '../control-plane/isolation/mqtt.ts'
import { nameOf, statusFor } from '../control-plane/isolation/row.ts'
import { controlPlaneRows, inOrder } from '../control-plane/isolation/rows.ts'
import { askWithHiddenSecrets, formsOf, leaksOf } from '../control-plane/isolation/secrets.ts'
import { openWorld, type Site, type Thing, type World } from '../control-plane/isolation/world.ts'
import { absentId } from '../control-plane/platform.ts'
import { brokerRows, consoleRows, messageRows, openRows, type Published, toolRows, undescribedRows } from './isolation-rows.ts'
import { type Answer, expectStatus } from './operator.ts'
import { administrator, type Platform, startedFolder, startPlatform } from './platform.ts'

const environment = {
  SVC_DEMO: 'true',
  SVC_ADMIN_EMAIL: administrator.email,
  SVC_ADMIN_PASSWORD: administrator.password,
  SVC_LOGGING_LEVEL: 'trace',
}
/** By the channel of a site. */
const published = new Map<string, Published>()
const ownRows = inOrder([...messageRows, ...toolRows(({ channel }) => published.get(channel)!), ...brokerRows, ...openRows, ...consoleRows])
const rows = [...ownRows, ...undescribedRows].map(row => ({ name: nameOf(row), row }))

/** Routes that change something, or have a method that may, and leave no line in the audit log, and why. */
const untraced: Readonly<Record<string, string>> = {
  'GET /things/bootstrap/{external_id}': 'a device does it at each start; the configuration has when it last did',
  'POST /tokens': 'signs a token, and stores nothing',
  'POST /things/search': 'searches',
  'POST /channels/{channel}/messages': 'the log and the store have each message, with its publisher',
  'POST /channels/{channel}/messages/{subtopic}': 'the same',
  'POST /brokers/emqx/authenticate': 'asks, and changes nothing',
  'POST /brokers/emqx/authorize': 'the same',
  'POST /brokers/mosquitto/acl': 'the same',
  'POST /brokers/mosquitto/superuser': 'the same',
  'POST /brokers/mosquitto/user': 'the same',
  'POST /console/sign-in': 'only a terminal gets its code: console/first-start.slow.test.ts looks for the line',
}

describe('a running platform', () => {
  let folder: Awaited<ReturnType<typeof startedFolder>>
  let platform: Platform
  let masterKey: Buffer
  let asker: Asker
  let world: World
  beforeAll(async () => {
    folder = await startedFolder()
    platform = await startPlatform({ data: folder.path, environment })
    ;[masterKey] = parseMasterKeys(await readFile(join(folder.path, 'master-key'), 'utf8'), 'master-key')
    asker = openAsker(platform.url)
    let isOpen = false
    world = await openWorld({ asker, administrator, masterKey, prepare: async site => (isOpen ? undefined : publishTo(site)) })
    isOpen = true
    await vi.waitFor(async () => expect(await totals()).toEqual({ letters: 2, owner: 2, stranger: 2 }), { timeout: 240_000 })
  })
  afterAll(async () => {
    await platform.stop()
    await folder[Symbol.asyncDispose]()
    console.log(`${asked.cells} cells asked`)
  })

  /** One record of each of its things, one document of each, one in a format of its left thing only, and one that cannot be decoded. */
  async function publishTo({ channel, thing, leftThing }: Site): Promise<void> {
    const publish = async ({ key }: Thing, format: string, body: object): Promise<string> => {
      const type = format === '' ? 'application/senml+json' : 'application/json'
      const path = `/channels/${channel}/messages${format}`
      const { json } = await expectStatus(asker.call('POST', path, { authorization: `Thing ${key}`, type, body }), 202)
      return json!['id'] as string
    }
    const good = await publish(thing, '', [{ n: 'a', v: 1 }])
    const bad = await publish(thing, '', [{ n: 'a', v: 1, vs: 'two' }])
    await publish(leftThing, '', [{ n: 'a', v: 2 }])
    for (const one of [thing, leftThing]) await publish(one, '/weather', { tmp: 1 })
    await publish(leftThing, '/fog', { dense: true })
    published.set(channel, { good, bad })
  }

  async function totals(): Promise<object> {
    const total = async (path: string, authorization: string): Promise<unknown> =>
      (await asker.call('GET', path, { authorization })).json?.['total']
    const { owner, stranger, administrator: chief } = world.users
    return {
      owner: await total(`/channels/${world.site.channel}/messages?format=weather`, owner.token),
      stranger: await total(`/channels/${world.foreign.channel}/messages?format=weather`, stranger.token),
      letters: await total('/admin/dead-letters', chief.token),
    }
  }

  /** The number of messages in the log. */
  const snapshot: Snapshot = async () => {
    const { json } = await asker.call('GET', '/admin/verify', { authorization: world.users.administrator.token })
    const partitions = json!['partitions'] as { checked: { to: number }; in_flight: number }[]
    return { messages: String(partitions.reduce((sum, { checked, in_flight: inFlight }) => sum + checked.to + inFlight, 0)) }
  }

  function mqttSite(): MqttSite {
    const [, port] = /^mqtt on mqtt:\S+:(\d+)$/m.exec(platform.printed())!
    return {
      world,
      port: Number(port),
      countMessages: async () => Number((await snapshot())['messages']),
      printed: () => platform.printed(),
    }
  }

  async function describedRoutes(): Promise<string[]> {
    const { json } = await asker.call('GET', '/openapi.json')
    return Object.entries(json!['paths'] as object)
      .flatMap(([path, methods]) => Object.keys(methods as object).map(method => `${method.toUpperCase()} ${path}`))
      .sort()
  }

  /** The whole audit log. */
  async function auditPages(): Promise<Answer[]> {
    const pages: Answer[] = []
    for (let offset = 0, total = 1; offset < total; offset += 100) {
      const authorization = world.users.administrator.token
      const page = await expectStatus(asker.call('GET', `/audit?limit=100&offset=${offset}`, { authorization }), 200)
      total = page.json!['total'] as number
      pages.push(page)
    }
    return pages
  }

  test('every route has a row, and every row a route', async () => {
    expect([...new Set([...controlPlaneRows, ...ownRows].map(({ route }) => route))].sort()).toEqual(await describedRoutes())
  })

  describe('each caller is answered according to their rights, and a refused request changes nothing', () => {
    test.each(rows)('$name', async ({ row }) => {
      const { got, wanted } = await askAll(world, row, snapshot)
      expect(got).toEqual(wanted)
    })
  })

  describe('over MQTT each caller may do the same, and hears nothing of a channel that it may not read', () => {
    test.each(mqttRows)('$name', async row => {
      const { got, wanted, asked: all } = await askAllOverMqtt(mqttSite(), row)
      expect(got).toEqual(wanted)
      for (const { packets } of all) asker.refusals.push(JSON.stringify(packets))
      if (row.action !== 'subscribe' && row.action !== 'share') return
      const { channel, thing } = world.site
      const authorization = `Thing ${thing.key}`
      const path = `/channels/${channel}/messages/roof`
      // Of a group that has none but the two who may read, each gets one.
      for (let messages = row.action === 'share' ? 2 : 1; messages > 0; messages--)
        await expectStatus(asker.call('POST', path, { authorization, type: 'application/senml+json', body: [{ n: 'd', v: 4 }] }), 202)
      const heard = []
      // Those who are to hear it first: the others might hear it by then.
      for (const one of all.toSorted((left, right) => Number(isGranted(right)) - Number(isGranted(left)))) {
        if (one.cell.connected !== 0) continue
        if (isGranted(one)) heard.push(await one.client.next())
        one.client.send({ cmd: 'pingreq' })
        expect(await one.client.next()).toMatchObject({ cmd: 'pingresp' })
      }
      expect(heard).toMatchObject([{ topic: path.slice(1) }, { topic: path.slice(1) }])
    })

    test("a missing channel and another user's are the same", async () => {
      for (const row of mqttRows.filter(({ action }) => action !== 'will')) {
        const [other, absent] = [
          await askOverMqtt(mqttSite(), row, 'otherThing', world.site.channel),
          await askOverMqtt(mqttSite(), row, 'otherThing', absentId),
        ]
        expect(other.cell, row.name).toMatchObject({ connected: 0, isChanged: false })
        expect(absent.packets, row.name).toEqual(other.packets)
      }
    })
  })

  test("a missing channel and another user's are the same to a caller who may not read or publish there", async () => {
    for (const row of messageRows) {
      // Administrators read what is under the id of a channel that no user has.
      const others = row.route.startsWith('GET') ? [] : (['administrator'] as const)
      for (const caller of ['stranger', 'otherThing', ...others] as const) {
        const of = (channel: string) => ({ ...world.site, channel })
        const seen = []
        for (const site of [world.site, of(absentId)])
          seen.push(seenOf(await ask(world, row, caller, row.request({ world, site, caller }))))
        expect(seen[1], nameOf(row)).toEqual(seen[0])
      }
      // Of an API key with a scope, those outside of it too.
      const seen = []
      for (const channel of [world.site.otherChannel, world.foreign.channel, absentId]) {
        const site = { ...world.site, channel }
        seen.push(seenOf(await ask(world, row, 'channelKey', row.request({ world, site, caller: 'channelKey' }))))
      }
      expect(seen, nameOf(row)).toEqual([seen[0], seen[0], seen[0]])
      expect(seen[0], nameOf(row)).toMatchObject({ status: 403 })
    }
  })

  describe('after all requests', () => {
    let pages: Answer[]
    beforeAll(async () => {
      const changing = controlPlaneRows.filter(row => row.changes === 'site')
      const sites = new Map(await Promise.all(changing.map(async row => [row, await world.freshSite()] as const)))
      for (const row of controlPlaneRows) {
        const caller = row.allowed.includes('owner') ? 'owner' : 'administrator'
        const site = sites.get(row) ?? world.site
        await row.prepare?.({ world, site, caller })
        await expectStatus(ask(world, row, caller, row.request({ world, site, caller })), statusFor(row, caller))
        for (const other of ['stranger', 'anonymous', 'garbage', 'connectedThing'] as const)
          await ask(world, row, other, row.request({ world, site: world.site, caller: other }))
      }
      await askAsDevice()
      await askWithHiddenSecrets(asker)
      pages = await auditPages()
    })

    test('every route that changes something has left a line in the audit log, with its request', async () => {
      const lines = pages.flatMap(({ json }) => json!['entries'] as { request_id?: string; user_id?: string }[])
      const users = new Map(lines.map(({ request_id: request, user_id: user }) => [request, user] as const))
      const requestsOf = (route: string): string[] => [...(asked.succeeded.get(route) ?? [])]
      const changing = (await describedRoutes()).filter(route => /^(POST|PUT|PATCH|DELETE) /.test(route) || route in untraced)
      expect(changing.filter(route => !requestsOf(route).some(request => users.has(request)))).toEqual(Object.keys(untraced).sort())
      const { id } = world.users.administrator
      for (const route of changing.filter(route => /^POST \/(admin|console\/demo)\//.test(route)))
        expect([route, new Set(requestsOf(route).map(request => users.get(request)))]).toEqual([route, new Set([id])])
    })

    test('no secret is in the log, in a refusal, in the metrics or in the audit log', async () => {
      const metrics = (await asker.call('GET', '/metrics')).text
      const authorization = world.users.administrator.token
      // The rows of the console have cut the store: a stop would wait for it.
      const isWriterRunning = async (): Promise<void> =>
        expect((await asker.call('GET', '/console/demo', { authorization })).json).toMatchObject({ writer: 'running' })
      await vi.waitFor(isWriterRunning, { timeout: 120_000 })
      expect(await platform.stop()).toBe(0)
      const texts = {
        log: platform.printed(),
        refusals: asker.refusals.join('\n'),
        metrics,
        audit: pages.map(({ text }) => text).join('\n'),
        'audit table': await auditTable(folder.path),
      }
      expect(platform.printed()).toMatch(/"level":"debug"/)
      expect(leaksOf(texts, [...asker.secrets, ...formsOf(masterKey)])).toEqual([])
    })
  })

  /** What a device changes with its external key, which no caller of the rows has. */
  async function askAsDevice(): Promise<void> {
    const { thing, device } = await world.freshSite()
    const owner = { authorization: world.users.owner.token, body: { client_key: 'a private key' } }
    await expectStatus(asker.call('PATCH', `/things/configs/certs/${thing.id}`, owner), 200)
    const path = `/things/bootstrap/${device.id}`
    const authorization = `Thing ${device.key}`
    await expectStatus(asker.call('GET', path, { authorization }), 200)
    const ack = await expectStatus(asker.call('POST', `${path}/ack`, { authorization }), 204)
    const body = { csr: (await makeCsr('/', undefined, undefined, folder.path)).csr }
    const csr = await expectStatus(asker.call('POST', `${path}/csr`, { authorization, body }), 201)
    for (const [what, { headers }] of Object.entries({ ack, csr }))
      asked.succeeded.set(`POST /things/bootstrap/{external_id}/${what}`, new Set([headers.get('x-request-id')!]))
  }

  test('keys chosen by older clients do not leak, in any form in which they are sent', async () => {
    platform = await startPlatform({ data: folder.path, environment: { ...environment, SVC_COMPATIBILITY: '0.13' } })
    const older = openAsker(platform.url)
    const token = await expectStatus(older.call('POST', '/tokens', { body: administrator }), 201)
    const authorization = `Bearer ${String(token.json!['token'])}`
    const key = `burnt-in:${randomUUID()}`
    const body = [{ name: 'old', key }]
    await expectStatus(older.call('POST', '/things/bulk', { authorization, body }), 201)
    await expectStatus(older.call('POST', '/things/bulk', { authorization, body }), 409)
    await expectStatus(older.call('POST', '/things', { authorization, body: { key: `${key}, and more` } }), 400)
    const path = `/channels/${world.site.channel}/messages`
    const basic = Buffer.from(`thing:${key}`).toString('base64')
    for (const shown of [`Basic ${basic}`, `Bearer ${key}`, `Thing ${key}`, key])
      await expectStatus(older.call('POST', path, { authorization: shown, type: 'application/senml+json', body: [{ n: 'a', v: 1 }] }), 403)
    await askWithHiddenSecrets(older)
    const metrics = (await older.call('GET', '/metrics')).text
    expect(await platform.stop()).toBe(0)
    const texts = { log: platform.printed(), refusals: older.refusals.join('\n'), metrics, 'audit table': await auditTable(folder.path) }
    expect(leaksOf(texts, [...older.secrets, basic])).toEqual([])
  })
})

/** Of a stopped platform. */
async function auditTable(folder: string): Promise<string> {
  const database = await openEmbedded({ folder: join(folder, 'postgres') })
  const rows = await database.query<{ line: string }>('SELECT audit::text AS line FROM control_plane.audit AS audit')
  await database.close()
  expect(rows).not.toEqual([])
  return rows.map(({ line }) => line).join('\n')
}
