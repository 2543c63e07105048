// Certificates for keys that devices keep: what a signing request replaces and revokes, who may send one, and how often.

import { X509Certificate } from 'node:crypto'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { csrBytesMax } from '../../../control-plane/certificates/csr.ts'
import type { Layout } from '../../../control-plane/provisioning/layout.ts'
import { type Answer, call } from '../../up/operator.ts'
import { startVaultStandIn } from '../certificates/authorities/vault-stand-in.ts'
import { ownCertificates } from '../certificates/certificates-options.ts'
import { makeCsr, readCrl } from '../certificates/openssl.ts'
import { describeOnDatabases, openPlatform, type Platform, type User } from '../platform.ts'
import { fullLayout } from '../provisioning/steps.ts'
import { certificatesOf } from '../provisioning/vault.ts'

const content = { agent: { mqtt: { client_cert: '{{certificate.client_cert}}', client_key: '{{certificate.client_key}}' } } }
const layout: Layout = { ...fullLayout, bootstrap: { ...fullLayout.bootstrap, content } }
const provisioning = { layout, externalKeyBytesMin: 8 }

/** Made once, of a key that the device keeps. */
let made: ReturnType<typeof makeCsr> | undefined
const request = () => (made ??= makeCsr('/CN=anything'))

const derOf = (pem: string): Buffer<ArrayBuffer> => Buffer.from(pem.replace(/-----.+-----/g, ''), 'base64')
const pemOf = (der: Buffer): string => `-----BEGIN CERTIFICATE REQUEST-----\n${der.toString('base64')}\n-----END CERTIFICATE REQUEST-----\n`
/** With another signature. */
function brokenOf(der: Buffer): Buffer {
  der[der.length - 1]! ^= 1
  return der
}

interface Device {
  readonly id: string
  readonly key: string
  readonly thing: string
}

describeOnDatabases('certificates of devices', database => {
  let platform: Platform
  let user: User
  beforeAll(async () => {
    platform = await openPlatform(database(), { provisioning })
    user = await platform.user()
  })
  afterAll(() => platform?.close())

  let serial = 0
  async function mapped(on = platform): Promise<Device> {
    const [id, key] = [`certified-${++serial}`, `external key ${serial}`]
    const body = { external_id: id, external_key: key }
    const { json } = await call(on.url, 'POST', '/mapping', { authorization: user.token, body })
    return { id, key, thing: (json!['things'] as { id: string }[])[1]!.id }
  }
  const ask = (method: string, path: string, body?: object): Promise<Answer> =>
    call(platform.url, method, path, { authorization: user.token, ...(body && { body }) })
  async function certify({ id, key }: Device, more: object = {}, on = platform): Promise<Answer> {
    const { csr } = await request()
    return call(on.url, 'POST', `/things/bootstrap/${id}/csr`, { authorization: `Thing ${key}`, body: { csr, ...more } })
  }
  const fetch = ({ id, key }: Device, on = platform): Promise<Answer> =>
    call(on.url, 'GET', `/things/bootstrap/${id}`, { authorization: `Thing ${key}` })
  async function serials({ thing }: Device): Promise<{ serial: unknown; isRevoked: boolean }[]> {
    const { json } = await ask('GET', `/serials/${thing}`)
    const listed = json!['certs'] as Record<string, unknown>[]
    return listed.map(one => ({ serial: one['cert_serial'], isRevoked: one['revocation_time'] !== undefined }))
  }

  test("a certificate for the device's key replaces the mapping's, which is revoked, and the private key is erased", async () => {
    const device = await mapped()
    const before = await fetch(device)
    expect(before.json).toHaveProperty('client_key')
    const { headers } = await ask('GET', `/things/configs/${device.thing}`)
    const answer = await certify(device, { ttl: '2h' })
    expect([answer.status, answer.headers.get('cache-control')]).toEqual([201, 'no-store'])
    expect(answer.json).not.toHaveProperty('client_key')
    expect(answer.json).not.toHaveProperty('ClientKey')
    const { client_cert: issued, issuing_ca: authority, cert_serial: own } = answer.json as Record<string, string>
    const certificate = new X509Certificate(issued!)
    expect([certificate.subject, certificate.publicKey.export({ format: 'der', type: 'spki' })]).toEqual([
      `CN=${device.thing}`,
      (await request()).request.publicKey,
    ])
    expect(Math.abs(Date.parse(certificate.validTo) - Date.now() - 7_200_000)).toBeLessThan(60_000)

    const after = await fetch(device)
    expect(after.json).toMatchObject({ client_cert: issued, ca_cert: authority })
    expect(after.json).not.toHaveProperty('client_key')
    expect(JSON.parse(after.json!['content'] as string)).toMatchObject({ agent: { mqtt: { client_cert: issued, client_key: '' } } })
    expect(after.headers.get('etag')).not.toBe(before.headers.get('etag'))
    expect((await ask('GET', `/things/configs/${device.thing}`)).headers.get('etag')).not.toBe(headers.get('etag'))
    const [first, second] = await serials(device)
    expect([first, second]).toEqual([
      { serial: expect.any(String), isRevoked: true },
      { serial: own, isRevoked: false },
    ])
    const crl = await globalThis.fetch(`${platform.url}/certs/crl`)
    expect((await readCrl(Buffer.from(await crl.arrayBuffer()))).serials).toContain(first!.serial)
  })

  test('the audit log records it, by a device and no user', async () => {
    const device = await mapped()
    const { json } = await certify(device)
    const authorization = await platform.administrator()
    const audit = await call(platform.url, 'GET', `/audit?object=${device.thing}&limit=3`, { authorization })
    const entries = audit.json!['entries'] as Record<string, unknown>[]
    expect(entries.map(({ action, user_id: by }) => [action, by])).toEqual([
      ['bootstrap.certify', undefined],
      ['certificate.revoke', undefined],
      ['certificate.issue', undefined],
    ])
    expect(entries[0]!['objects']).toEqual([device.thing, json!['cert_serial']])
  })

  test('after several concurrent requests only the last certificate is valid', async () => {
    const device = await mapped()
    const answers = await Promise.all([certify(device), certify(device), certify(device)])
    expect(answers.map(({ status }) => status)).toEqual([201, 201, 201])
    const valid = (await serials(device)).filter(({ isRevoked }) => !isRevoked)
    const current = new X509Certificate((await fetch(device)).json!['client_cert'] as string).serialNumber.toLowerCase()
    expect(valid).toEqual([{ serial: current, isRevoked: false }])
  })

  test('a certificate that the owner gave is replaced, and another one of the thing stays valid', async () => {
    const device = await mapped()
    const other = await ask('POST', '/certs', { thing_id: device.thing, key_type: 'ec' })
    await ask('PATCH', `/things/configs/certs/${device.thing}`, { client_cert: 'of another authority' })
    const { json } = await certify(device)
    const valid = (await serials(device)).filter(({ isRevoked }) => !isRevoked).map(({ serial }) => serial)
    expect(valid).toEqual(expect.arrayContaining([other.json!['cert_serial'], json!['cert_serial']]))
  })

  test('in mode development it is issued, and nothing is revoked', async () => {
    const developing = await openPlatform(database(), { provisioning, certificates: { ...ownCertificates, mode: 'development' } })
    onTestFinished(() => developing.close())
    const device = await mapped(developing)
    const { status, json } = await certify(device, {}, developing)
    expect([status, (await fetch(device, developing)).json]).toMatchObject([201, { client_cert: json!['client_cert'] }])
    expect((await serials(device)).map(({ isRevoked }) => isRevoked)).toEqual([false, false])
  })

  test.each<[string, object | (() => Promise<object>), string]>([
    ['no CSR', { csr: undefined }, '/body/csr'],
    ['an empty one', { csr: '' }, '/body/csr'],
    ['a text that is not one', { csr: 'a request' }, '/body/csr'],
    ['one that its key did not sign', async () => ({ csr: pemOf(brokenOf(derOf((await request()).csr))) }), '/body/csr'],
    ['one as DER in Base64', async () => ({ csr: derOf((await request()).csr).toString('base64') }), '/body/csr'],
    ['one of more than 16384 characters', async () => ({ csr: (await request()).csr.padEnd(csrBytesMax + 1) }), '/body/csr'],
    ['a lifetime that is too long', { ttl: '99999h' }, '/body/ttl'],
  ])('%s is malformed, says where, and changes nothing', async (_name, more, pointer) => {
    const device = await mapped()
    const before = await fetch(device)
    const answer = await certify(device, typeof more === 'function' ? await more() : more)
    expect([answer.status, answer.json?.['errors']]).toEqual([400, [{ pointer, detail: expect.any(String) }]])
    expect((await fetch(device)).json).toEqual(before.json)
  })

  test.each<[string, string, () => Promise<string | Buffer<ArrayBuffer>>, number]>([
    ['a CSR as DER', 'application/pkcs10', async () => derOf((await request()).csr), 415],
    ['a body of more than 32768 bytes', 'application/json', async () => JSON.stringify({ csr: 'x'.repeat(32_769) }), 413],
  ])('%s is refused as a whole', async (_name, type, body, status) => {
    const { id, key, thing } = await mapped()
    const path = `/things/bootstrap/${id}/csr`
    expect((await call(platform.url, 'POST', path, { authorization: `Thing ${key}`, type, body: await body() })).status).toBe(status)
    expect(await serials({ id, key, thing })).toHaveLength(1)
  })

  test('a thing whose configuration was deleted is like an unknown one', async () => {
    const device = await mapped()
    await ask('DELETE', `/things/configs/${device.thing}`)
    const [deleted, unknown] = [await certify(device), await certify({ ...device, id: 'unknown' })]
    expect([deleted.status, { ...deleted.json, request_id: '' }]).toEqual([401, { ...unknown.json, request_id: '' }])
    expect(await serials(device)).toHaveLength(1)
  })

  test('a wrong key, an unknown id and no key are a 401 before the body is read; disabled is 403', async () => {
    const device = await mapped()
    const post = (path: string, headers: Record<string, string>) =>
      call(platform.url, 'POST', path, { headers, body: 'no JSON', type: 'application/json' })
    const path = `/things/bootstrap/${device.id}/csr`
    const wrong = { authorization: 'Thing a wrong key' }
    const refused = [await post(path, wrong), await post('/things/bootstrap/unknown/csr', wrong), await post(path, {})]
    for (const { status, headers } of refused) expect([status, headers.get('www-authenticate')]).toEqual([401, 'Thing realm="sluice"'])
    expect({ ...refused[0]!.json, request_id: '' }).toEqual({ ...refused[1]!.json, request_id: '' })
    await ask('PUT', `/things/configs/${device.thing}`, { enabled: false })
    expect((await certify(device)).status).toBe(403)
    expect(await serials(device)).toHaveLength(1)
  })

  test('a device with a hundred certificates in the CRL gets no other, and uses up none of those of its owner’s other things', async () => {
    const device = await mapped()
    const statuses = new Set<number>()
    for (let nth = 0; nth < 100; nth++) statuses.add((await certify(device)).status)
    expect([statuses, (await certify(device)).status]).toEqual([new Set([201]), 429])
    expect((await fetch(device)).status).toBe(200)
    expect((await certify(await mapped())).status).toBe(201)
  })

  test('a certificate that the owner revokes is no longer returned, and neither is the private key beside it', async () => {
    const device = await mapped()
    await ask('DELETE', '/certs/revoke', { thing_id: device.thing })
    const { json } = await fetch(device)
    expect(Object.keys(json!).filter(key => key.startsWith('client_'))).toEqual([])
  })

  test('the content has the current key of the thing', async () => {
    const device = await mapped()
    const rotated = await ask('PATCH', `/things/${device.thing}/key`, {})
    const key = rotated.json!['key'] as string
    const { json } = await fetch(device)
    expect(json!['thing_key']).toBe(key)
    expect(JSON.parse(json!['content'] as string)).toMatchObject({ agent: { mqtt: { password: key } } })
  })

  test('if the configuration is deleted while the certificate is being signed, the certificate is refused and revoked', async () => {
    const vault = await startVaultStandIn()
    onTestFinished(() => vault.stop())
    const outside = await openPlatform(database(), { provisioning, certificates: certificatesOf(vault) })
    onTestFinished(() => outside.close())
    const device = await mapped(outside)
    const valid = vault.valid()
    const { arrived, release } = vault.hold()
    const asked = certify(device, {}, outside)
    await arrived
    await ask('DELETE', `/things/configs/${device.thing}`)
    release()
    expect((await asked).status).toBe(403)
    await expect.poll(() => vault.valid()).toEqual(valid)
  })
})
