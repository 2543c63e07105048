// Certificates in mode `development`, for older clients, and in the metrics.

import { Registry } from 'prom-client'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { watchExpiries } from '../../../control-plane/certificates/metrics.ts'
import { openControlPlane } from '../../../control-plane/index.ts'
import { type Answer, call } from '../../up/operator.ts'
import {
  absentId,
  describeOnDatabases,
  masterKey,
  openPlatform,
  ownPolicies,
  type Platform,
  recordingLogger,
  type User,
} from '../platform.ts'
import { ownCertificates } from './certificates-options.ts'

describeOnDatabases('certificates by options', database => {
  let platform: Platform
  let user: User
  let thing: string
  const asks = (compatibility: 'none' | '0.13', mode: 'pki' | 'development'): void => {
    beforeAll(async () => {
      platform = await openPlatform(database(), { compatibility, certificates: { ...ownCertificates, mode } })
      user = await platform.user()
      thing = ((await ask('POST', '/things/bulk', [{ name: 'device' }])).json!['things'] as [{ id: string }])[0].id
    })
    afterAll(() => platform?.close())
  }
  const ask = (method: string, path: string, body?: object, authorization = user.token): Promise<Answer> =>
    call(platform.url, method, path, { authorization, ...(body === undefined ? {} : { body }) })

  describe('development', () => {
    asks('none', 'development')

    test('certificates are issued and read; renewing and revoking them, and the CRL, are a 409 that says why', async () => {
      const { status, json } = await ask('POST', '/certs', { thing_id: thing, key_type: 'ec' })
      expect(status).toBe(201)
      const serial = String(json!['Serial'])
      expect((await ask('GET', `/certs/${serial}`)).status).toBe(200)
      expect((await ask('GET', `/serials/${thing}`)).json).toMatchObject({ total: 1 })
      for (const [method, path, body] of [
        ['DELETE', '/certs/revoke', { thing_id: thing }],
        ['DELETE', `/certs/${thing}`],
        ['POST', `/certs/${serial}/renew`, {}],
        ['GET', '/certs/crl'],
      ] as const) {
        const answer = await ask(method, path, body)
        expect([path, answer.status, answer.json!['detail']]).toEqual([path, 409, expect.stringContaining('set certificates.mode to pki')])
      }
      expect((await ask('DELETE', `/things/${thing}`)).status).toBe(204)
    })
  })

  describe('pki, for older clients', () => {
    asks('0.13', 'pki')

    test('with the requests of the command line, a bare token gets 200 and one with Bearer 201', async () => {
      const body = { thing_id: thing, key_bits: 2048, key_type: 'rsa', encryption: '', valid: '8760' }
      const bare = await ask('POST', '/certs', body, user.token.replace('Bearer ', ''))
      expect([bare.status, bare.json]).toMatchObject([
        200,
        { client_cert: expect.any(String), client_key: expect.any(String), issuing_ca: expect.any(String) },
      ])
      expect(Math.abs(Date.parse(String(bare.json!['expiration'])) - Date.now() - 8760 * 3_600_000)).toBeLessThan(60_000)
      expect((await ask('POST', '/certs', { ...body, key_type: 'EC' })).status).toBe(201)
      const renewed = `/certs/${String(bare.json!['cert_serial'])}/renew`
      expect((await ask('POST', renewed, { valid: '1' }, user.token.replace('Bearer ', ''))).status).toBe(200)
      expect((await ask('DELETE', `/certs/${thing}`, undefined, user.token.replace('Bearer ', ''))).json).toHaveProperty('RevocationTime')
    })

    test('DELETE /<thing id>, which the SDK sends, revokes all certificates of the thing and gets 204; a foreign thing and an absent one are the same 403', async () => {
      const revoked = async (): Promise<boolean[]> =>
        ((await ask('GET', `/serials/${thing}`)).json!['certs'] as object[]).map(one => 'revocation_time' in one)
      await database().execute('DELETE FROM control_plane.certificates')
      for (let nth = 0; nth < 2; nth++) await ask('POST', '/certs', { thing_id: thing, key_type: 'ec' })
      const stranger = (await platform.user()).token
      const refused = [await ask('DELETE', `/${thing}`, undefined, stranger), await ask('DELETE', `/${absentId}`, undefined, stranger)]
      expect(refused.map(({ status, json }) => ({ ...json, status, request_id: '' }))).toEqual(
        refused.map(() => ({ ...refused[0]!.json, status: 403, request_id: '' })),
      )
      expect((await call(platform.url, 'DELETE', `/${thing}`)).status).toBe(401)
      expect([(await ask('GET', `/${thing}`)).status, await revoked()]).toEqual([404, [false, false]])
      const { status, text } = await ask('DELETE', `/${thing.toUpperCase()}`, undefined, user.token.replace('Bearer ', ''))
      expect([status, text, await revoked()]).toEqual([204, '', [true, true]])
      // Again.
      expect((await ask('DELETE', `/${thing}`)).status).toBe(204)
    })

    test('the metrics show when the last one of a thing expires first, and of how many things within 7 and 30 days, and name none', async () => {
      await database().execute('DELETE FROM control_plane.certificates')
      const scrape = async (): Promise<string> => {
        const registry = new Registry()
        const options = {
          users: { allowSelfRegister: true, registrationsPerHour: 0, boundSelfRegistered: false },
          tokens: { lifetimeSeconds: 60 },
          audit: { retentionDays: 1 },
          policies: ownPolicies,
          certificates: ownCertificates,
          compatibility: 'none' as const,
        }
        const plane = await openControlPlane({
          database: database(),
          masterKeys: [masterKey],
          options,
          logger: recordingLogger().logger,
          registry,
        })
        const text = await registry.metrics()
        await plane.close()
        return text.replace(/^(#.*)?\n/gm, '')
      }
      expect(await scrape()).toBe(
        'certificates_earliest_expiry_timestamp_seconds Nan\ncertificates_expiring{days="7"} 0\ncertificates_expiring{days="30"} 0\ncertificates_revocations_pending 0\n',
      )
      const other = ((await ask('POST', '/things/bulk', [{ name: 'other' }])).json!['things'] as [{ id: string }])[0].id
      const ends: number[] = []
      for (const [of, ttl] of [
        [thing, '48h'],
        [thing, '2400h'],
        [other, '240h'],
        [other, '3000h'],
      ] as const) {
        const { json } = await ask('POST', '/certs', { thing_id: of, key_type: 'ec', ttl })
        ends.push(Date.parse(String(json!['Expire'])) / 1000)
        if (ttl === '3000h') await ask('DELETE', '/certs/revoke', { thing_id: of, serial: json!['Serial'] })
      }
      // As if an authority elsewhere were to be asked.
      await database().execute('UPDATE control_plane.certificates SET revocation_due_at = now() WHERE revoked_at IS NOT NULL')
      expect(await scrape()).toBe(
        `certificates_earliest_expiry_timestamp_seconds ${ends[2]}\ncertificates_expiring{days="7"} 0\ncertificates_expiring{days="30"} 1\ncertificates_revocations_pending 1\n`,
      )
    })

    test('while the database does not answer the metrics of certificates are NaN, and the others are still reported', async () => {
      const registry = new Registry()
      watchExpiries(registry, { expiries: () => Promise.reject(new Error('away')) })
      expect(await registry.metrics()).toContain('certificates_earliest_expiry_timestamp_seconds Nan\n')
    })
  })
})
