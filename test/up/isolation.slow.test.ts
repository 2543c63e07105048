// No caller reads, publishes or administers without permission: every route of a running platform with every kind of caller; and no secret leaks.

import { randomUUID } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { parseMasterKeys } from '../../config/secrets.ts'
import { openEmbedded } from '../../database/embedded/embedded.ts'
import { type Asker, openAsker } from '../control-plane/isolation/asker.ts'
import { ask, askAll, asked, type Snapshot, seenOf } from '../control-plane/isolation/matrix.ts'
import { nameOf, statusFor } from '../control-plane/isolation/row.ts'
import { controlPlaneRows, inOrder } from '../control-plane/isolation/rows.ts'
import { askWithHiddenSecrets, formsOf, leaksOf } from '../control-plane/isolation/secrets.ts'
import { openWorld, type Site, type Thing, type World } from '../control-plane/isolation/world.ts'
import { absentId } from '../control-plane/platform.ts'
import { consoleRows, messageRows, openRows, type Published, toolRows, undescribedRows } from './isolation-rows.ts'
import { expectStatus } from './operator.ts'
import { administrator, type Platform, startedFolder, startPlatform } from './platform.ts'

const environment = {
  SVC_DEMO: 'true',
  SVC_ADMIN_EMAIL: administrator.email,
  SVC_ADMIN_PASSWORD: administrator.password,
  SVC_LOGGING_LEVEL: 'trace',
}
/** By the channel of a site. */
const published = new Map<string, Published>()
const ownRows = inOrder([...messageRows, ...toolRows(({ channel }) => published.get(channel)!), ...openRows, ...consoleRows])
const rows = [...ownRows, ...undescribedRows].map(row => ({ name: nameOf(row), row }))

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

  test('every route has a row, and every row a route', async () => {
    const { json } = await asker.call('GET', '/openapi.json')
    const routes = Object.entries(json!['paths'] as object).flatMap(([path, methods]) =>
      Object.keys(methods as object).map(method => `${method.toUpperCase()} ${path}`),
    )
    expect([...new Set([...controlPlaneRows, ...ownRows].map(({ route }) => route))].sort()).toEqual(routes.sort())
  })

  describe('each caller is answered according to their rights, and a refused request changes nothing', () => {
    test.each(rows)('$name', async ({ row }) => {
      const { got, wanted } = await askAll(world, row, snapshot)
      expect(got).toEqual(wanted)
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
    }
  })

  test('no secret is in the log, in a refusal, in the metrics or in the audit log after all requests', async () => {
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
    await askWithHiddenSecrets(asker)
    const metrics = (await asker.call('GET', '/metrics')).text
    let audit = ''
    const authorization = world.users.administrator.token
    for (let offset = 0, total = 1; offset < total; offset += 100) {
      const page = await asker.call('GET', `/audit?limit=100&offset=${offset}`, { authorization })
      total = page.json!['total'] as number
      audit += page.text
    }
    // The rows of the console have cut the store: a stop would wait for it.
    const isWriterRunning = async (): Promise<void> =>
      expect((await asker.call('GET', '/console/demo', { authorization })).json).toMatchObject({ writer: 'running' })
    await vi.waitFor(isWriterRunning, { timeout: 120_000 })
    expect(await platform.stop()).toBe(0)
    const texts = {
      log: platform.printed(),
      refusals: asker.refusals.join('\n'),
      metrics,
      audit,
      'audit table': await auditTable(folder.path),
    }
    expect(platform.printed()).toMatch(/"level":"debug"/)
    expect(leaksOf(texts, [...asker.secrets, ...formsOf(masterKey)])).toEqual([])
  })

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
