// Certificates of a real step-ca server: what every authority promises, and what a control plane does while it is away.

import { createPrivateKey, X509Certificate } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { Authority } from '../../../../control-plane/certificates/authorities/authority.ts'
import { openStepCa } from '../../../../control-plane/certificates/authorities/step-ca.ts'
import type { CertificatesOptions } from '../../../../control-plane/certificates/options.ts'
import { certificateCredential, noChannel } from '../../../../control-plane/client.ts'
import { newThingId } from '../../../../control-plane/ids.ts'
import { certificateAuthorityConformance } from '../../../conformance/certificate-authority.ts'
import { openFreshEmbedded } from '../../../servers/embedded.ts'
import { describeWithStepCa } from '../../../servers/step-ca.ts'
import { type Answer, call } from '../../../up/operator.ts'
import { openPlatform, type Platform, type User } from '../../platform.ts'
import { makeCsr, readCrl, verify } from '../openssl.ts'
import { keptCertificates } from './kept-certificates.ts'
import { stepCaOptions } from './step-ca-options.ts'

describeWithStepCa('step-ca', stepCa => {
  let platform: Platform
  /** On the same database, for requests that the server does not answer. */
  let impatient: Platform
  let authority: Authority
  beforeAll(async () => {
    platform = await openPlatform(await openFreshEmbedded(), { certificates: stepCaOptions(stepCa) })
    impatient = await openPlatform(platform.database, { certificates: stepCaOptions(stepCa, { timeoutMs: 1_000 }) })
    authority = await open()
  })
  afterAll(async () => {
    await authority?.close()
    await impatient?.close()
    await platform?.close()
    await platform?.database.close()
  })
  const open = async (more: Partial<CertificatesOptions['stepCa']> = {}): Promise<Authority> => {
    const opened = openStepCa(stepCaOptions(stepCa, more).stepCa)
    await opened.start()
    return opened
  }

  certificateAuthorityConformance(() => ({
    authority,
    database: platform.database,
    root: async () => stepCa.root,
    upperCrls: [stepCa.rootCrl],
    ...keptCertificates(platform.database, authority),
  }))

  describe('provisioner', () => {
    const sign = async (opened: Authority) => {
      const thing = newThingId()
      return opened.sign({ thing, ...(await makeCsr('/')).request, ttlSeconds: 3600 })
    }

    test('its key is also accepted as PEM, with the id that it has at the server', async () => {
      const key = createPrivateKey({ key: stepCa.key, format: 'jwk' }).export({ format: 'pem', type: 'pkcs8' }).toString()
      expect(await sign(await open({ key, keyId: 'test' }))).toMatchObject({ certificate: expect.stringContaining('BEGIN') })
    })

    test('anything but a P-256 key stops the start, and the error does not show it', async () => {
      for (const key of ['secret', '{"kty":"EC"}', JSON.stringify({ ...stepCa.key, d: undefined })])
        await expect(open({ key })).rejects.toThrow(/^certificates.step_ca.key is not a P-256 private key/)
    })

    test('an unknown provisioner, or another root, is unavailable', async () => {
      await expect(sign(await open({ provisioner: 'other' }))).rejects.toMatchObject({ code: 'unavailable' })
      await expect(sign(await open({ keyId: 'other' }))).rejects.toMatchObject({ code: 'unavailable' })
      const { caFile: _, ...untrusting } = stepCaOptions(stepCa).stepCa
      const opened = openStepCa(untrusting)
      await opened.start()
      await expect(sign(opened)).rejects.toMatchObject({ code: 'unavailable' })
    })

    test('a lifetime that it does not allow is refused with its reason', async () => {
      const request = { thing: newThingId(), ...(await makeCsr('/')).request, ttlSeconds: 9_000 * 3600 }
      const refusal = { code: 'malformed_request', detail: expect.stringMatching(/refuses the request: .*duration/) }
      await expect(authority.sign(request)).rejects.toMatchObject(refusal)
    })
  })

  describe('behind a control plane', () => {
    let user: User
    let thing: string
    beforeEach(async () => {
      user = await platform.user()
      thing = await makeThing()
    })
    const ask = (method: string, path: string, body?: object, on = platform): Promise<Answer> =>
      call(on.url, method, path, { authorization: user.token, ...(body === undefined ? {} : { body }) })
    const makeThing = async (): Promise<string> =>
      ((await ask('POST', '/things/bulk', [{ name: 'device' }])).json!['things'] as [{ id: string }])[0].id
    const issue = async (of = thing) =>
      (await ask('POST', '/certs', { thing_id: of, key_type: 'ec' })).json as unknown as {
        ThingID: string
        Serial: string
        ClientCert: string
        CAChain: string[]
      }
    const crl = async () => Buffer.from(await (await fetch(`${platform.url}/certs/crl`)).arrayBuffer())

    test('a certificate is issued, renewed and revoked over HTTP, and OpenSSL sees each', async () => {
      const first = await issue()
      expect(first.CAChain).toHaveLength(1)
      const { json } = await ask('POST', `/certs/${first.Serial}/renew`, { revoke_previous: true })
      const second = json as unknown as typeof first
      const check = async ({ ClientCert, CAChain }: typeof first) =>
        verify(ClientCert, { root: stepCa.root, chain: CAChain, crl: await crl() })
      await expect.poll(() => check(first)).toBe('certificate revoked')
      expect(await check(second)).toBe('OK')
      const access = async ({ ClientCert }: typeof first) => {
        const credential = certificateCredential(new X509Certificate(ClientCert))
        return platform.plane.access.authorize({ credential, channel: noChannel, action: 'publish' })
      }
      // Of its thing, which is connected to no channel.
      expect([await access(first), await access(second)]).toMatchObject([{ reason: 'unauthenticated' }, { reason: 'forbidden' }])
      expect((await ask('DELETE', `/things/${thing}`)).status).toBe(204)
      await expect.poll(() => check(second)).toBe('certificate revoked')
    })

    test.each<[string, () => Promise<void> | void, () => Promise<void> | void]>([
      ['it was killed', () => stepCa.kill(), () => stepCa.restart()],
      ['it hangs', () => stepCa.pause(), () => stepCa.resume()],
    ])('while %s: 503 for certificates and the CRL; what is revoked gives no access, and is in it later', async (_name, away, back) => {
      const { Serial, ClientCert } = await issue()
      const deleted = await issue(await makeThing())
      await away()
      try {
        for (const [method, path, body] of [
          ['POST', '/certs', { thing_id: thing, key_type: 'ec' }],
          ['POST', `/certs/${Serial}/renew`, {}],
          ['GET', '/certs/crl'],
        ] as const) {
          const answer = await ask(method, path, body, impatient)
          expect([method, path, answer.status]).toEqual([method, path, 503])
          expect(Number(answer.headers.get('retry-after'))).toBeGreaterThan(0)
        }
        expect((await ask('GET', `/serials/${thing}`)).json).toMatchObject({ total: 1, certs: [{ cert_serial: Serial }] })
        expect((await ask('DELETE', '/certs/revoke', { thing_id: thing }, impatient)).status).toBe(200)
        expect((await ask('DELETE', `/things/${deleted.ThingID}`, undefined, impatient)).status).toBe(204)
        expect((await ask('GET', `/certs/${Serial}`)).json).toHaveProperty('revocation_time')
        for (const pem of [ClientCert, deleted.ClientCert]) {
          const credential = certificateCredential(new X509Certificate(pem))
          const answer = await platform.plane.access.authorize({ credential, channel: noChannel, action: 'publish' })
          expect(answer).toMatchObject({ reason: 'unauthenticated' })
        }
        await expect.poll(() => platform.logged() + impatient.logged()).toMatch(new RegExp(`"serials":\\[[^\\]]*"${Serial}"`))
      } finally {
        await back()
      }
      await expect.poll(async () => (await ask('GET', '/certs/crl')).status).toBe(200)
      // In place of half a minute.
      const sql = 'UPDATE control_plane.certificates SET revocation_due_at = now() WHERE revocation_due_at IS NOT NULL'
      await platform.database.query(sql)
      await expect.poll(async () => (await readCrl(await crl())).serials).toEqual(expect.arrayContaining([Serial, deleted.Serial]))
      // Neither the key nor a token.
      for (const secret of [String(stepCa.key['d']), 'eyJ'])
        for (const one of [platform, impatient]) expect(one.logged()).not.toContain(secret)
    })
  })
})
