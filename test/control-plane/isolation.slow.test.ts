// No caller can see or change another user's entities: every route of the control plane, called by every kind of caller (SPEC §5).

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Asker, openAsker } from './isolation/asker.ts'
import { ask, askAll, asked, mixturesOf, openSnapshot, type Snapshot, seenOf, substitutionsOf } from './isolation/matrix.ts'
import { nameOf } from './isolation/row.ts'
import { controlPlaneRows, routesOf } from './isolation/rows.ts'
import { askWithHiddenSecrets, formsOf, leaksOf } from './isolation/secrets.ts'
import { openWorld, type World } from './isolation/world.ts'
import { absentId, administrator, describePlatformOnServer, masterKey } from './platform.ts'

const rows = controlPlaneRows.map(row => ({ name: nameOf(row), row }))

describePlatformOnServer('isolation', platform => {
  let asker: Asker
  let world: World
  let snapshot: Snapshot
  beforeAll(async () => {
    asker = openAsker(platform().url)
    world = await openWorld({ asker, administrator, masterKey })
    snapshot = await openSnapshot(platform().database)
  })
  afterAll(() => console.log(`${asked.cells} cells asked`))

  test('every route has a row, and every row a route', async () => {
    const routes = await routesOf(platform().plane.routes)
    const listed = new Set(controlPlaneRows.map(({ route }) => route))
    expect([...listed].sort()).toEqual(routes)
  })

  describe('each caller is answered according to their rights, and a refused request changes nothing', () => {
    test.each(rows)('$name', async ({ row }) => {
      const { got, wanted } = await askAll(world, row, snapshot)
      expect(got).toEqual(wanted)
    })
  })

  describe("an absent id and another user's return the same answer to everyone but the administrator, and change nothing", () => {
    const named = rows.filter(({ row }) => /\{|connect|search|polic|certs/.test(row.route))
    test.each(named)('$name', async ({ row }) => {
      const { site } = world
      const before = await snapshot()
      for (const { name, caller, isTolerated, requests } of substitutionsOf(world, row, site)) {
        const seen = []
        for (const request of Object.values(requests)) seen.push(seenOf(await ask(world, row, caller, request)))
        const where = `${name}, ${caller}`
        const isTold = caller === 'administrator' && (name !== 'bystander' || row.allowed.includes(caller))
        const refused = row.takes === 'external keys' ? 401 : isTold ? 404 : 403
        expect(seen[0], where).toMatchObject({ status: isTolerated ? row.status : refused })
        for (const other of seen) expect(other, where).toEqual(seen[0])
        expect(await snapshot(), where).toEqual(before)
      }
    })
  })

  test('a channel outside of the scope of an API key, an absent one and a stranger get the same answer on every route', async () => {
    const { site, foreign } = world
    for (const row of controlPlaneRows.filter(({ route, allowed }) => route.includes('{channel}') && allowed.includes('channelKey'))) {
      const seen = []
      for (const channel of [site.otherChannel, foreign.channel, absentId])
        seen.push(seenOf(await ask(world, row, 'channelKey', row.request({ world, site: { ...site, channel }, caller: 'channelKey' }))))
      expect(seen, nameOf(row)).toEqual([seen[0], seen[0], seen[0]])
      expect(seen[0], nameOf(row)).toMatchObject({ status: 403 })
    }
  })

  describe("a request with an absent id or another user's in a list changes nothing", () => {
    const mixed = rows.filter(({ row }) => /connect|share|members|policies/.test(row.route) && row.changes === 'site')
    test.each(mixed)('$name', async ({ row }) => {
      const { caller, requests } = mixturesOf(world, row)
      const before = await snapshot()
      const seen = []
      for (const [what, request] of Object.entries(requests)) {
        const answer = seenOf(await ask(world, row, caller, request))
        expect(answer, what).toMatchObject({ status: caller === 'administrator' ? 404 : 403 })
        expect(await snapshot(), what).toEqual(before)
        seen.push(answer)
      }
      for (const other of seen) expect(other).toEqual(seen[0])
    })
  })

  test('no secret of these requests is in the log, in a refusal or in the audit log', async () => {
    await askWithHiddenSecrets(asker)
    const audit = await platform().database.query<{ line: string }>('SELECT audit::text AS line FROM control_plane.audit AS audit')
    const texts = { log: platform().logged(), refusals: asker.refusals.join('\n'), audit: audit.map(({ line }) => line).join('\n') }
    for (const text of Object.values(texts)) expect(text).not.toBe('')
    expect(leaksOf(texts, [...asker.secrets, ...formsOf(masterKey)])).toEqual([])
  })
})
