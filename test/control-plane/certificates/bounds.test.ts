// How many certificates one owner may have, valid and revoked.

import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { type Answer, call } from '../../up/operator.ts'
import { describeOnDatabases, openPlatform, type Platform, type User } from '../platform.ts'
import { ownCertificates } from './certificates-options.ts'
import { readCrl } from './openssl.ts'

describeOnDatabases('bounds of an owner', database => {
  let platform: Platform
  let owner: User
  let thing: string
  beforeAll(async () => {
    platform = await openPlatform(database(), { certificates: { ...ownCertificates, perOwnerMax: 4 } })
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

  test('an owner with as many certificates as allowed gets no new ones until some expired a week ago, but can still revoke and delete', async () => {
    const second = await makeThing(owner)
    const [first, other] = [await issue(), await issue({ ttl: '2h' })]
    for (const more of [{ thing_id: second, ttl: '3h' }, { ttl: '4h' }]) await issue(more)
    const revoke = (answer: Answer): Promise<Answer> =>
      ask(owner, 'DELETE', '/certs/revoke', { thing_id: thing, serial: answer.json!['Serial'] })
    // Neither a revoked certificate nor that of a deleted thing makes room.
    expect((await revoke(first)).status).toBe(200)
    expect((await ask(owner, 'DELETE', `/things/${second}`)).status).toBe(204)
    const refused = await issue()
    expect([refused.status, refused.json!['detail']]).toEqual([
      429,
      expect.stringMatching(/you have 4 certificates, .*certificates\.per_owner_max/),
    ])
    // A week after the first of them has expired.
    expect(Math.abs(Number(refused.headers.get('retry-after')) - 7 * 86_400 - 3_600)).toBeLessThan(60)
    expect((await ask(owner, 'POST', `/certs/${String(other.json!['Serial'])}/renew`, { revoke_previous: true })).status).toBe(429)
    expect((await revoke(other)).status).toBe(200)
    expect((await ask(owner, 'DELETE', `/things/${thing}`)).status).toBe(204)

    const stranger = await platform.user()
    thing = await makeThing(stranger)
    expect((await issue({}, stranger)).status).toBe(201)
    thing = await makeThing(owner)
    const sql = `UPDATE control_plane.certificates SET expires_at = now() - $2::interval WHERE owner = $1`
    await database().query(sql, [owner.id, '6 days'])
    expect((await issue()).status).toBe(429)
    await database().query(sql, [owner.id, '8 days'])
    expect((await issue()).status).toBe(201)
    const countsSql = `
      SELECT certificate_count AS counted, (SELECT count(*)::int4 FROM control_plane.certificates WHERE owner = users.id) AS stored
      FROM control_plane.users WHERE id = $1`
    expect(await database().query(countsSql, [owner.id])).toEqual([{ counted: 1, stored: 1 }])
  })

  test('the CRL names a revoked certificate until a week after it expires, and the next issue removes its row', async () => {
    const { json } = await issue()
    const serial = String(json!['Serial'])
    await ask(owner, 'DELETE', `/certs/${thing}`)
    const isNamed = async (age: string): Promise<boolean> => {
      await database().query('UPDATE control_plane.certificates SET expires_at = now() - $2::interval WHERE serial = $1', [serial, age])
      // Or the CRL would be the one of before for an hour.
      await database().query('UPDATE control_plane.crl_revision SET revision = revision + 1')
      const der = Buffer.from(await (await fetch(`${platform.url}/certs/crl`)).arrayBuffer())
      return (await readCrl(der)).serials.includes(serial)
    }
    expect([await isNamed('0 s'), await isNamed('167 hours'), await isNamed('169 hours')]).toEqual([true, true, false])
    const listed = async () => (await ask(owner, 'GET', `/serials/${thing}`)).json!['certs'] as { cert_serial: string }[]
    expect((await listed()).map(one => one.cert_serial)).toEqual([serial])
    const next = await issue()
    expect((await listed()).map(one => one.cert_serial)).toEqual([next.json!['Serial']])
  })
})
