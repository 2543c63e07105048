// The control plane while its OpenFGA server is away, hangs or refuses: nothing is allowed because of that, and nothing is half done.

import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { openServer } from '../../../../database/server.ts'
import { describeWithOpenFga } from '../../../servers/openfga.ts'
import { describeWithPostgres } from '../../../servers/postgres.ts'
import { type Answer, call, makeSite } from '../../../up/operator.ts'
import { openPlatform, type Platform, type User } from '../../platform.ts'
import { optionsOf } from './openfga-options.ts'

describeWithPostgres('OpenFGA away', postgres => {
  describeWithOpenFga('from a control plane', openfga => {
    let platform: Platform
    /** On the same database, for requests that the server does not answer. */
    let impatient: Platform
    let user: User
    let other: User
    beforeAll(async () => {
      const database = await openServer({ url: await postgres.createDatabase(), applicationName: 'sluice-test', connectionsMax: 8 })
      const { store, openfga: options } = optionsOf(openfga)
      platform = await openPlatform(database, { policies: { store, openfga: options } })
      impatient = await openPlatform(database, { policies: { store, openfga: { ...options, timeoutMs: 500 } } })
    })
    beforeEach(async () => {
      user = await platform.user()
      other = await platform.user()
    })
    afterAll(async () => {
      await impatient.close()
      await platform.close()
      await platform.database.close()
    })
    const ask = (method: string, path: string, body?: object, authorization = user.token, on = platform): Promise<Answer> =>
      call(on.url, method, path, { authorization, ...(body === undefined ? {} : { body }) })
    const idOf = ({ headers }: Answer): string => headers.get('location')!.replace(/^\/\w+\//, '')
    const isAllowed = async (path: string, authorization: string): Promise<number> =>
      (await ask('GET', path, undefined, authorization)).status

    test.each<[string, () => Promise<void> | void, () => Promise<void> | void]>([
      ['it was killed', () => openfga.kill(), () => openfga.restart()],
      ['it hangs', () => openfga.pause(), () => openfga.resume()],
    ])('while %s: 503, nothing is changed, and publishing and reading continue', async (_name, away, back) => {
      const thing = idOf(await ask('POST', '/things', { name: 'kept' }))
      const group = idOf(await ask('POST', '/groups', { name: 'kept' }))
      await ask('POST', `/things/${thing}/share`, { user_ids: [other.id], policies: ['read'] })
      const site = await makeSite(platform.url)
      const before = (await platform.database.query<{ n: bigint }>('SELECT count(*) AS n FROM control_plane.audit'))[0]!.n
      await away()
      try {
        const share = { user_ids: [other.id], policies: ['write'] }
        for (const [method, path, body] of [
          ['GET', `/things/${thing}`],
          ['PUT', `/things/${thing}`, { name: 'x' }],
          ['DELETE', `/things/${thing}`],
          ['POST', '/things', { name: 'x' }],
          ['POST', '/things/bulk', [{ name: 'x' }, { name: 'y' }]],
          ['POST', `/things/${thing}/share`, share],
          ['DELETE', `/things/${thing}/share`, { ...share, policies: ['read'] }],
          ['POST', '/groups', { name: 'x' }],
          ['DELETE', `/groups/${group}`],
          ['POST', `/groups/${group}/members`, { type: 'users', members: [other.id] }],
        ] as const) {
          const answer = await ask(method, path, body, user.token, impatient)
          expect([method, path, answer.status]).toEqual([method, path, 503])
          expect(Number(answer.headers.get('retry-after'))).toBeGreaterThan(0)
        }
        // Requests that no policy decides.
        expect((await ask('GET', '/things?limit=100')).json).toMatchObject({ total: 1 })
        expect((await ask('GET', `/channels/${site.channel}`, undefined, site.owner)).status).toBe(200)
        const credential = { scheme: 'Thing', secret: site.device.replace('Thing ', '') } as const
        expect(await impatient.plane.access.authorize({ credential, channel: site.channel, action: 'publish' })).toMatchObject({
          allowed: true,
        })
        await expect(impatient.plane.checkPolicies!()).rejects.toMatchObject({ code: 'unavailable' })
      } finally {
        await back()
      }
      await expect.poll(() => platform.plane.checkPolicies!().then(() => 'there', String)).toBe('there')
      expect((await ask('GET', '/things?limit=100')).json).toMatchObject({ total: 1 })
      expect((await ask('GET', `/groups`)).json).toMatchObject({ total: 1 })
      expect(await isAllowed(`/things/${thing}`, user.token)).toBe(200)
      expect(await isAllowed(`/things/${thing}`, other.token)).toBe(200)
      expect((await ask('PUT', `/things/${thing}`, { name: 'x' }, other.token)).status).toBe(403)
      expect(await isAllowed(`/groups/${group}`, other.token)).toBe(403)
      const after = (await platform.database.query<{ n: bigint }>('SELECT count(*) AS n FROM control_plane.audit'))[0]!.n
      expect(after - before).toBeLessThanOrEqual(0n)
    })

    test('a thing that is deleted while its policies are being removed belongs to no user, and its key is refused', async () => {
      const thing = idOf(await ask('POST', '/things', { name: 'gone' }))
      await ask('POST', `/things/${thing}/share`, { user_ids: [other.id], policies: ['read'] })
      expect((await ask('DELETE', `/things/${thing}`)).status).toBe(204)
      for (const { token } of [user, other]) expect(await isAllowed(`/things/${thing}`, token)).toBe(403)
    })

    test('many concurrent changes while it hangs leave database connections to others', async () => {
      const things = await Promise.all(Array.from({ length: 8 }, () => ask('POST', '/things', { name: 'x' }).then(idOf)))
      const share = { user_ids: [other.id], policies: ['read'] }
      let ended = 0
      openfga.pause()
      const changes = things.map(thing => ask('POST', `/things/${thing}/share`, share).finally(() => ended++))
      try {
        const lists = await Promise.all(Array.from({ length: 20 }, () => ask('GET', '/channels')))
        expect(lists.map(({ status }) => status)).toEqual(lists.map(() => 200))
        expect(ended).toBe(0)
      } finally {
        openfga.resume()
      }
      for (const change of changes) expect((await change).status).toBe(200)
    })
  })
})
