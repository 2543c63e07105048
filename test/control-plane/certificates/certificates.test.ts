// Certificates over HTTP: who may have which, what an answer contains, and how they end.

import { createPrivateKey, createPublicKey, X509Certificate } from 'node:crypto'
import { beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { type Answer, call } from '../../up/operator.ts'
import { absentId, describePlatform, type User } from '../platform.ts'
import { makeCsr, readCrl, verify } from './openssl.ts'

interface IssuedRecord {
  readonly Serial: string
  readonly ClientCert: string
  readonly ClientKey: string
  readonly IssuingCA: string
  readonly Expire: string
}

describePlatform('certificates', platform => {
  let owner: User
  let stranger: User
  let administrator: string
  let thing: string
  beforeAll(async () => {
    owner = await platform().user()
    stranger = await platform().user()
    administrator = await platform().administrator()
  })
  beforeEach(async () => {
    thing = await makeThing()
  })
  const ask = (method: string, path: string, body?: object, authorization = owner.token): Promise<Answer> =>
    call(platform().url, method, path, { authorization, ...(body === undefined ? {} : { body }) })
  const makeThing = async (authorization = owner.token): Promise<string> =>
    ((await ask('POST', '/things/bulk', [{ name: 'device' }], authorization)).json!['things'] as [{ id: string }])[0].id
  /** P-256, which takes no time. */
  const issue = async (more: object = {}): Promise<IssuedRecord> => {
    const answer = await ask('POST', '/certs', { thing_id: thing, key_type: 'ec', ...more })
    expect([answer.status, answer.json?.['errors']]).toEqual([201, undefined])
    return answer.json as unknown as IssuedRecord
  }
  const crl = async (): Promise<Buffer> => Buffer.from(await (await fetch(`${platform().url}/certs/crl`)).arrayBuffer())
  const revokedSerials = async (): Promise<readonly string[]> => (await readCrl(await crl())).serials
  const noted = async (object: string): Promise<string[]> => {
    const { json } = await ask('GET', `/audit?object=${object}`, undefined, administrator)
    return (json!['entries'] as { action: string }[]).map(({ action }) => action)
  }

  describe('issue', () => {
    test('the record has the fields of SPEC §2, and the names of older clients beside them; its key must not be cached', async () => {
      const answer = await ask('POST', '/certs', { thing_id: thing, rsa_bits: 2048, key_type: 'rsa' })
      expect([answer.status, answer.headers.get('cache-control')]).toEqual([201, 'no-store'])
      const { ThingID, ClientCert, IssuingCA, CAChain, ClientKey, PrivateKeyType, Serial, Expire, ...others } = answer.json!
      expect([ThingID, CAChain, PrivateKeyType]).toEqual([thing, null, 'rsa'])
      expect(Serial).toMatch(/^[0-9a-f]{32}$/)
      expect(Expire).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/)
      expect(others).toEqual({
        thing_id: thing,
        cert: ClientCert,
        client_cert: ClientCert,
        client_key: ClientKey,
        issuing_ca: IssuingCA,
        ca_chain: null,
        cert_serial: Serial,
        expiration: Expire,
      })
      const certificate = new X509Certificate(ClientCert as string)
      expect([certificate.subject, certificate.serialNumber.toLowerCase()]).toEqual([`CN=${thing}`, Serial])
      expect(certificate.validToDate.getTime()).toBe(Date.parse(Expire as string))
      expect(certificate.checkPrivateKey(createPrivateKey(ClientKey as string))).toBe(true)
      expect(await verify(ClientCert as string, { root: IssuingCA as string, crl: await crl() })).toBe('OK')
      expect(await noted(thing)).toEqual(['certificate.issue', 'thing.create'])
    })

    test.each<[object, string, number | string]>([
      [{}, 'rsa', 2048],
      [{ key_type: 'RSA', key_bits: 2048 }, 'rsa', 2048],
      [{ key_type: '', rsa_bits: 0, key_bits: 2048, ttl: '', encryption: '' }, 'rsa', 2048],
      [{ key_type: 'EC', rsa_bits: 1024 }, 'ec', 'prime256v1'],
      [{ key_type: 'ec', rsa_bits: 7, key_bits: 9 }, 'ec', 'prime256v1'],
    ])('%o gives a key of %s, %s', async (body, type, size) => {
      const { json } = await ask('POST', '/certs', { thing_id: thing, ...body })
      const { asymmetricKeyType, asymmetricKeyDetails } = createPrivateKey(json!['ClientKey'] as string)
      expect([json!['PrivateKeyType'], asymmetricKeyType]).toEqual([type, type])
      expect(asymmetricKeyDetails?.namedCurve ?? asymmetricKeyDetails?.modulusLength).toBe(size)
    })

    test.each<[object, number]>([
      [{}, 2_400],
      [{ ttl: '48h' }, 48],
      [{ ttl: '7200' }, 2],
      [{ valid: '8760' }, 8_760],
      [{ valid: '90m' }, 1.5],
      [{ ttl: '3600', valid: '1' }, 1],
    ])('%o lives %d hours', async (body, hours) => {
      const { Expire } = await issue(body)
      expect(Math.abs(Date.parse(Expire) - Date.now() - hours * 3_600_000)).toBeLessThan(60_000)
    })

    test.each<[string, object]>([
      ['/body/thing_id', { thing_id: 'device' }],
      ['/body/rsa_bits', { rsa_bits: 1024 }],
      ['/body/key_bits', { key_bits: 2049 }],
      ['/body/key_bits', { rsa_bits: 2048, key_bits: 4096 }],
      ['/body/key_type', { key_type: 'dsa' }],
      ['/body/ttl', { ttl: 'a year' }],
      ['/body/ttl', { ttl: '0' }],
      ['/body/ttl', { ttl: '8761h' }],
      ['/body/valid', { valid: '-1' }],
      ['/body/valid', { ttl: '1h', valid: '2' }],
      ['/body/csr', { csr: 'none' }],
      ['/body/csr', { csr: 'x'.repeat(16_385) }],
    ])('a fault at %s is a 400 that names it: %o', async (pointer, body) => {
      const { status, json } = await ask('POST', '/certs', { thing_id: thing, ...body })
      expect([status, (json!['errors'] as { pointer: string }[]).map(fault => fault.pointer)]).toEqual([400, [pointer]])
    })

    test("only the owner of the thing gets one; an absent thing and another owner's are the same 403, and 404 for the administrator", async () => {
      const body = { thing_id: thing, key_type: 'ec' }
      const share = { user_ids: [stranger.id], policies: ['read', 'write', 'delete'] }
      await ask('POST', `/things/${thing}/share`, share)
      const foreign = await ask('POST', '/certs', body, stranger.token)
      const absent = await ask('POST', '/certs', { ...body, thing_id: absentId }, stranger.token)
      expect([foreign.status, absent.status]).toEqual([403, 403])
      expect(foreign.json).toEqual({ ...absent.json, request_id: foreign.json!['request_id'] })
      expect((await ask('POST', '/certs', { ...body, thing_id: absentId }, administrator)).status).toBe(404)
      expect((await ask('POST', '/certs', body, administrator)).status).toBe(403)
      expect((await call(platform().url, 'POST', '/certs', { body })).status).toBe(401)
      expect((await ask('POST', '/certs', body, owner.token.replace('Bearer ', ''))).status).toBe(401)
    })

    test('with a CSR it is for the key of the CSR, whatever subject and extensions that has, and no key is returned', async () => {
      const more = ['-addext', 'subjectAltName=DNS:other.example', '-addext', 'basicConstraints=critical,CA:TRUE']
      const { csr } = await makeCsr('/O=Other/CN=other', undefined, more)
      const issued = await issue({ csr })
      expect(issued).not.toHaveProperty('ClientKey')
      expect(issued).not.toHaveProperty('client_key')
      const { subject, subjectAltName, ca } = new X509Certificate(issued.ClientCert)
      expect([subject, subjectAltName, ca]).toEqual([`CN=${thing}`, undefined, false])
    })
  })

  describe('read', () => {
    test('a certificate is viewed by its serial, also in upper case, and those of a thing are listed in pages', async () => {
      const serials: string[] = []
      for (let nth = 0; nth < 3; nth++) serials.push((await issue()).Serial)
      const viewed = await ask('GET', `/certs/${serials[0]!.toUpperCase()}`)
      expect(viewed.json).toEqual({
        thing_id: thing,
        cert: expect.stringContaining('BEGIN CERTIFICATE'),
        cert_serial: serials[0],
        expiration: expect.any(String),
      })
      const { json } = await ask('GET', `/serials/${thing}?offset=1&limit=5`)
      const { certs, ...page } = json as { certs: { cert_serial: string }[] }
      expect([page, certs.map(one => one.cert_serial)]).toEqual([{ total: 3, offset: 1, limit: 5 }, serials.slice(1)])
      expect(certs[0]).toMatchObject({ thing_id: thing, cert: expect.any(String), expiration: expect.any(String) })
    })

    test('only the owner can read one; an absent one looks the same, except to the administrator', async () => {
      const { Serial } = await issue()
      const statuses = async (path: string): Promise<number[]> =>
        Promise.all([stranger.token, administrator].map(async token => (await ask('GET', path, undefined, token)).status))
      expect(await statuses(`/certs/${Serial}`)).toEqual([403, 403])
      expect(await statuses('/certs/abcdef')).toEqual([403, 404])
      expect(await statuses(`/serials/${thing}`)).toEqual([403, 403])
      expect(await statuses(`/serials/${absentId}`)).toEqual([403, 404])
      expect((await ask('GET', '/certs/none')).status).toBe(400)
    })
  })

  describe('revoke', () => {
    test.each<[string, () => Promise<Answer>]>([
      ['DELETE /certs/revoke', () => ask('DELETE', '/certs/revoke', { thing_id: thing })],
      ['DELETE /certs/<thing id>', () => ask('DELETE', `/certs/${thing}`)],
    ])('%s revokes all certificates of a thing: the CRL and OpenSSL show it immediately', async (_name, revoke) => {
      const [first, second] = [await issue(), await issue()]
      const answer = await revoke()
      const { revocation_time: time } = answer.json!
      expect([answer.status, answer.json]).toEqual([200, { revocation_time: time, RevocationTime: time }])
      expect(Math.abs(Date.parse(time as string) - Date.now())).toBeLessThan(60_000)
      expect(await revokedSerials()).toEqual(expect.arrayContaining([first.Serial, second.Serial]))
      expect(await verify(first.ClientCert, { root: first.IssuingCA, crl: await crl() })).toBe('certificate revoked')
      expect((await ask('GET', `/certs/${first.Serial}`)).json).toMatchObject({ revocation_time: time })
      expect((await revoke()).json).toEqual(answer.json)
      expect(await noted(first.Serial)).toEqual(['certificate.revoke', 'certificate.issue'])
    })

    test('one is revoked by its serial, and the others stay valid', async () => {
      const [kept, revoked] = [await issue(), await issue()]
      expect((await ask('DELETE', '/certs/revoke', { thing_id: thing, serial: revoked.Serial.toUpperCase() })).status).toBe(200)
      expect(await revokedSerials()).toContain(revoked.Serial)
      expect(await revokedSerials()).not.toContain(kept.Serial)
      expect(await verify(kept.ClientCert, { root: kept.IssuingCA, crl: await crl() })).toBe('OK')
    })

    test('revoking for a thing without a certificate, or without that one, is a 404', async () => {
      expect((await ask('DELETE', `/certs/${thing}`)).status).toBe(404)
      const { Serial } = await issue()
      const other = await makeThing()
      expect((await ask('DELETE', '/certs/revoke', { thing_id: other, serial: Serial })).status).toBe(404)
      expect(await revokedSerials()).not.toContain(Serial)
    })

    test('only the owner can revoke', async () => {
      const { Serial } = await issue()
      for (const authorization of [stranger.token, administrator]) {
        expect((await ask('DELETE', `/certs/${thing}`, undefined, authorization)).status).toBe(403)
        expect((await ask('DELETE', '/certs/revoke', { thing_id: thing }, authorization)).status).toBe(403)
      }
      expect(await revokedSerials()).not.toContain(Serial)
    })

    test('deleting a thing revokes its certificates, and the CRL lists them when the deletion is answered', async () => {
      const { Serial } = await issue()
      expect((await ask('DELETE', `/things/${thing}`)).status).toBe(204)
      expect(await revokedSerials()).toContain(Serial)
      expect((await ask('GET', `/certs/${Serial}`)).status).toBe(403)
      expect(await noted(Serial)).toEqual(['certificate.revoke', 'certificate.issue'])
    })

    test('a refused deletion revokes nothing', async () => {
      const { Serial } = await issue()
      const headers = { 'if-match': '"9"' }
      expect((await call(platform().url, 'DELETE', `/things/${thing}`, { authorization: owner.token, headers })).status).toBe(412)
      expect(await revokedSerials()).not.toContain(Serial)
    })
  })

  describe('renew', () => {
    const renew = (serial: string, body: object = {}): Promise<Answer> => ask('POST', `/certs/${serial}/renew`, body)

    test('without a CSR there is a new key of the same kind, and the previous certificate stays valid', async () => {
      const before = await issue()
      const answer = await renew(before.Serial, { ttl: '1h' })
      const after = answer.json as unknown as IssuedRecord
      expect([answer.status, answer.headers.get('cache-control')]).toEqual([201, 'no-store'])
      expect(answer.json).toMatchObject({ ThingID: thing, PrivateKeyType: 'ec', previous_serial: before.Serial, previous_revoked: false })
      expect(after.Serial).not.toBe(before.Serial)
      expect(after.ClientKey).not.toBe(before.ClientKey)
      for (const { ClientCert, IssuingCA } of [before, after])
        expect(await verify(ClientCert, { root: IssuingCA, crl: await crl() })).toBe('OK')
      expect(await noted(after.Serial)).toEqual(['certificate.renew', 'certificate.issue'])
    })

    test('with a CSR for its own key it is for the same key', async () => {
      const { csr } = await makeCsr('/')
      const keyOf = ({ ClientCert }: IssuedRecord) => createPublicKey(ClientCert).export({ format: 'pem', type: 'spki' })
      const before = await issue({ csr })
      const { json } = await renew(before.Serial, { csr })
      expect(keyOf(json as unknown as IssuedRecord)).toBe(keyOf(before))
      expect(json).not.toHaveProperty('ClientKey')
    })

    test('on request it revokes the previous certificate', async () => {
      const before = await issue()
      const { json } = await renew(before.Serial, { revoke_previous: true })
      expect(json).toMatchObject({ previous_serial: before.Serial, previous_revoked: true })
      expect(await revokedSerials()).toContain(before.Serial)
      expect(await revokedSerials()).not.toContain(json!['Serial'])
    })

    test('a revoked certificate is not renewed (409), nor one of another owner (403)', async () => {
      const { Serial } = await issue()
      expect((await ask('POST', `/certs/${Serial}/renew`, {}, stranger.token)).status).toBe(403)
      await ask('DELETE', `/certs/${thing}`)
      const answer = await renew(Serial)
      expect([answer.status, answer.json?.['detail']]).toEqual([409, expect.stringContaining('is revoked')])
      expect((await ask('GET', `/serials/${thing}`)).json).toMatchObject({ total: 1 })
    })
  })

  test.each<[string | undefined, string]>([
    [undefined, 'application/pkix-crl'],
    ['*/*', 'application/pkix-crl'],
    ['application/pkix-crl, text/plain;q=0.5', 'application/pkix-crl'],
    ['application/x-pem-file', 'application/x-pem-file'],
    ['text/plain', 'application/x-pem-file'],
  ])('the CRL needs no token, and with Accept %s it is %s', async (accept, type) => {
    await issue()
    const answer = await fetch(`${platform().url}/certs/crl`, { headers: accept === undefined ? {} : { accept } })
    const bytes = Buffer.from(await answer.arrayBuffer())
    expect([answer.status, answer.headers.get('content-type'), answer.headers.get('cache-control')]).toEqual([200, type, 'no-cache'])
    const pem = bytes.toString().startsWith('-----BEGIN X509 CRL-----')
    expect(pem).toBe(type === 'application/x-pem-file')
    const der = pem ? Buffer.from(bytes.toString().replace(/-----.+-----/g, ''), 'base64') : bytes
    expect((await readCrl(der)).text).toContain('Issuer: CN = Sluice')
  })

  test.each<[string, string]>([
    ['DER', 'application/pkix-crl'],
    ['PEM', 'application/x-pem-file'],
  ])('the same CRL as %s is a 304 by its ETag, and a new one once a revocation is answered', async (_form, accept) => {
    await issue()
    const fetchCrl = (tags?: string) =>
      fetch(`${platform().url}/certs/crl`, { headers: { accept, ...(tags === undefined ? {} : { 'if-none-match': tags }) } })
    const first = await fetchCrl()
    const etag = first.headers.get('etag')!
    expect(etag).toMatch(/^"[\w.-]+"$/)
    for (const tags of [etag, `W/${etag}`, `"other", ${etag}`, '*']) {
      const again = await fetchCrl(tags)
      expect([again.status, again.headers.get('etag'), await again.text()]).toEqual([304, etag, ''])
    }
    const otherForm = await fetch(`${platform().url}/certs/crl`, {
      headers: { accept: accept === 'application/pkix-crl' ? 'text/plain' : '*/*', 'if-none-match': etag },
    })
    expect(otherForm.status).toBe(200)
    await ask('DELETE', `/certs/${thing}`)
    const next = await fetchCrl(etag)
    expect([next.status, next.headers.get('etag') === etag]).toEqual([200, false])
  })

  test('no private key is in the database or the log', async () => {
    const { ClientKey } = await issue()
    const secret = ClientKey.split('\n')[1]!
    const rows = await platform().database.query<{ text: string }>(`
      SELECT certificates::text AS text FROM control_plane.certificates UNION ALL SELECT audit::text FROM control_plane.audit`)
    expect(rows.map(({ text }) => text).join()).not.toContain(secret)
    expect(rows.map(({ text }) => text).join()).not.toContain('PRIVATE KEY')
    expect(platform().logged()).not.toContain(secret)
  })
})
