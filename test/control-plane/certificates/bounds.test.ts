// How many certificates one owner may have: valid ones, and revoked ones.

import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test, vi } from 'vitest'
import { openBounds } from '../../../control-plane/certificates/bounds.ts'
import { newThingId, toUserId } from '../../../control-plane/ids.ts'
import type { Queries } from '../../../database/database.ts'
import { type Answer, call } from '../../up/operator.ts'
import { describeOnDatabases, openPlatform, type Platform, type User } from '../platform.ts'
import { ownCertificates } from './certificates-options.ts'
import { readCrl } from './openssl.ts'

describeOnDatabases('bounds of an owner', database => {
  let platform: Platform
  let owner: User
  let thing: string
  beforeAll(async () => {
    platform = await openPlatform(database(), { certificates: { ...ownCertificates, validMax: 4, revokedMax: 3 } })
  })
  afterAll(() => platform?.close())
  beforeEach(async () => {
    owner = await platform.user()
    thing = await makeThing(owner)
  })
  const ask = (by: User, method: string, path: string, body?: object): Promise<Answer> =>
    call(platform.url, method, path, { authorization: by.token, ...(body === undefined ? {} : { body }) })
  const makeThing = async (by: User): Promise<string> =>
    ((await ask(by, 'POST', '/things/bulk', [{ name: 'device' }])).json!['things'] as [{ id: string }])[0].id
  const issue = (more: object = {}, by = owner): Promise<Answer> =>
    ask(by, 'POST', '/certs', { thing_id: thing, key_type: 'ec', ttl: '1h', ...more })

  test('an owner with as many revoked certificates as allowed gets no new ones until they have left the CRL, but can still revoke and delete', async () => {
    const [kept, other, ...revoked] = [await issue(), await issue(), await issue(), await issue({ ttl: '2h' })]
    const revoke = (answer: Answer): Promise<Answer> =>
      ask(owner, 'DELETE', '/certs/revoke', { thing_id: thing, serial: answer.json!['Serial'] })
    for (const one of revoked) await revoke(one)
    const second = await makeThing(owner)
    expect((await issue({ thing_id: second })).status).toBe(201)
    // Certificates of a deleted thing count too.
    expect((await ask(owner, 'DELETE', `/things/${second}`)).status).toBe(204)

    const refused = await issue()
    expect([refused.status, refused.json!['detail']]).toEqual([429, expect.stringMatching(/lists 3 revoked .*certificates\.revoked_max/)])
    // A week after those that last an hour have expired.
    expect(Math.abs(Number(refused.headers.get('retry-after')) - 7 * 86_400 - 3_600)).toBeLessThan(60)
    expect((await ask(owner, 'POST', `/certs/${String(kept.json!['Serial'])}/renew`, { revoke_previous: true })).status).toBe(429)
    expect((await revoke(other)).status).toBe(200)
    expect((await ask(owner, 'DELETE', `/things/${thing}`)).status).toBe(204)

    const stranger = await platform.user()
    thing = await makeThing(stranger)
    expect((await issue({}, stranger)).status).toBe(201)
    thing = await makeThing(owner)
    const sql = `UPDATE control_plane.certificates SET expires_at = now() - $2::interval WHERE owner = $1 AND revoked_at IS NOT NULL`
    await database().query(sql, [owner.id, '6 days'])
    expect((await issue()).status).toBe(429)
    await database().query(sql, [owner.id, '8 days'])
    expect((await issue()).status).toBe(201)
  })

  test('an owner with as many valid certificates as allowed gets no new ones until some expire or are revoked', async () => {
    const second = await makeThing(owner)
    const [first] = [await issue(), await issue({ ttl: '3h' }), await issue({ thing_id: second, ttl: '2h' }), await issue({ ttl: '4h' })]
    const refused = await issue({ thing_id: second })
    expect([refused.status, refused.json!['detail']]).toEqual([429, expect.stringMatching(/you have 4 valid .*certificates\.valid_max/)])
    // When the first of them ends.
    expect(Math.abs(Number(refused.headers.get('retry-after')) - 3_600)).toBeLessThan(60)
    expect((await ask(owner, 'POST', `/certs/${String(first.json!['Serial'])}/renew`, {})).status).toBe(429)
    expect((await ask(owner, 'DELETE', '/certs/revoke', { thing_id: thing, serial: first.json!['Serial'] })).status).toBe(200)
    expect((await issue()).status).toBe(201)
    await database().query('UPDATE control_plane.certificates SET expires_at = now() WHERE thing = $1', [second])
    expect((await issue()).status).toBe(201)
    expect((await issue()).status).toBe(429)
  })

  test('an owner far below the limits, or just refused, is not counted for each certificate', async () => {
    let counts = 0
    const counting: Queries = {
      query: (sql, values) => {
        if (sql.includes('count(*) FROM control_plane.certificates ')) counts++
        return database().query(sql, values)
      },
    }
    const open = () => openBounds({ database: database(), authority: 'builtin', validMax: 1_000, revokedMax: 2_000 })
    const demand = (bounds: ReturnType<typeof open>, more = 1): Promise<void> =>
      bounds.demandCapacity(counting, toUserId(owner.id), Array.from({ length: more }, newThingId))
    const first = open()
    // One, and a tenth of the 999 that are then free.
    for (let nth = 0; nth < 100; nth++) await demand(first)
    expect(counts).toBe(1)
    await demand(first)
    expect(counts).toBe(2)

    const sql = `INSERT INTO control_plane.certificates (serial, thing, owner, authority, certificate, expires_at)
      SELECT md5($1 || n), gen_random_uuid(), $1::uuid, 'builtin', '', now() + interval '1 day' FROM generate_series(1, 995) AS n`
    await database().query(sql, [owner.id])
    const second = open()
    for (const more of [2, 5, 5]) await demand(second, more)
    expect(counts).toBe(5)
    vi.useFakeTimers({ toFake: ['performance'] })
    onTestFinished(() => void vi.useRealTimers())
    for (let nth = 0; nth < 3; nth++) await expect(demand(second, 6)).rejects.toMatchObject({ code: 'too_many_requests' })
    expect(counts).toBe(6)
    vi.advanceTimersByTime(10)
    await demand(second, 5)
    expect(counts).toBe(7)
  })

  test('the CRL names a revoked certificate until a week after it expires, and its row is removed a month after', async () => {
    const { json } = await issue()
    const serial = String(json!['Serial'])
    await ask(owner, 'DELETE', `/certs/${thing}`)
    const sql = 'UPDATE control_plane.certificates SET expires_at = now() - $2::interval WHERE serial = $1'
    // Each time another revocation, or the CRL would be the one of before for an hour.
    const isNamed = async (age: string): Promise<boolean> => {
      await database().query(sql, [serial, age])
      await issue({ thing_id: await makeThing(owner) }).then(async ({ json }) => ask(owner, 'DELETE', `/certs/${String(json!['ThingID'])}`))
      await database().query('DELETE FROM control_plane.certificates WHERE owner = $1 AND serial <> $2', [owner.id, serial])
      const der = Buffer.from(await (await fetch(`${platform.url}/certs/crl`)).arrayBuffer())
      return (await readCrl(der)).serials.includes(serial)
    }
    const isKept = async (): Promise<boolean> =>
      (await database().query('SELECT FROM control_plane.certificates WHERE serial = $1', [serial])).length > 0
    expect([await isNamed('0 s'), await isNamed('167 hours'), await isNamed('169 hours')]).toEqual([true, true, false])
    expect([await isNamed('29 days'), await isKept(), await isNamed('31 days'), await isKept()]).toEqual([false, true, false, false])
  })
})
