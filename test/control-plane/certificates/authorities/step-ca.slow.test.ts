// Certificates of a real step-ca server: what every authority promises, and what a control plane does while it is away.

import { createPrivateKey, X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import type { Authority } from '../../../../control-plane/certificates/authorities/authority.ts'
import { openStepCa } from '../../../../control-plane/certificates/authorities/step-ca.ts'
import type { CertificatesOptions } from '../../../../control-plane/certificates/options.ts'
import { certificateCredential, noChannel } from '../../../../control-plane/client.ts'
import { newThingId } from '../../../../control-plane/ids.ts'
import { openServer } from '../../../../database/server.ts'
import { certificateAuthorityConformance } from '../../../conformance/certificate-authority.ts'
import { openFreshEmbedded } from '../../../servers/embedded.ts'
import { describeWithPostgres } from '../../../servers/postgres.ts'
import { describeWithStepCa } from '../../../servers/step-ca.ts'
import { type Answer, call, expectStatus } from '../../../up/operator.ts'
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

  test('revoking many again does not read the CRL for each', async () => {
    const serials = Array.from({ length: 40 }, (_, nth) => (nth + 16).toString(16))
    const crl = Buffer.from(serials.map(serial => `0201${serial}`).join(''), 'hex')
    let [revoked, read] = [0, 0]
    const all = Promise.withResolvers<void>()
    const server = createServer((request, response) => {
      if (request.url === '/1.0/crl') {
        read++
        void all.promise.then(() => response.end(crl))
        return
      }
      response.writeHead(400).end('{"message": "certificate with serial number 1 is already revoked"}')
      if (++revoked === serials.length) all.resolve()
    }).listen(0, '127.0.0.1')
    onTestFinished(() => void server.close())
    await once(server, 'listening')
    const opened = await open({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` })
    onTestFinished(() => opened.close())
    await opened.revoke(serials, platform.database)
    expect(read).toBeLessThan(serials.length / 2)
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
    const issue = async () =>
      (await ask('POST', '/certs', { thing_id: thing, key_type: 'ec' })).json as { Serial: string; ClientCert: string; CAChain: string[] }
    const crl = async () => Buffer.from(await (await fetch(`${platform.url}/certs/crl`)).arrayBuffer())

    test('a certificate is issued, renewed and revoked over HTTP, and OpenSSL sees each', async () => {
      const first = await issue()
      expect(first.CAChain).toHaveLength(1)
      const { json } = await ask('POST', `/certs/${first.Serial}/renew`, { revoke_previous: true })
      const second = json as unknown as typeof first
      const check = async ({ ClientCert, CAChain }: typeof first) =>
        verify(ClientCert, { root: stepCa.root, chain: CAChain, crl: await crl() })
      expect([await check(first), await check(second)]).toEqual(['certificate revoked', 'OK'])
      const access = async ({ ClientCert }: typeof first) => {
        const credential = certificateCredential(new X509Certificate(ClientCert))
        return platform.plane.access.authorize({ credential, channel: noChannel, action: 'publish' })
      }
      // Of its thing, which is connected to no channel.
      expect([await access(first), await access(second)]).toMatchObject([{ reason: 'unauthenticated' }, { reason: 'forbidden' }])
      expect((await ask('DELETE', `/things/${thing}`)).status).toBe(204)
      expect(await check(second)).toBe('certificate revoked')
    })

    test.each<[string, () => Promise<void> | void, () => Promise<void> | void]>([
      ['it was killed', () => stepCa.kill(), () => stepCa.restart()],
      ['it hangs', () => stepCa.pause(), () => stepCa.resume()],
    ])('while %s: 503, nothing is stored or changed, and requests that need no authority succeed', async (_name, away, back) => {
      const { Serial } = await issue()
      const bare = await makeThing()
      await away()
      try {
        for (const [method, path, body] of [
          ['POST', '/certs', { thing_id: thing, key_type: 'ec' }],
          ['POST', `/certs/${Serial}/renew`, {}],
          ['DELETE', '/certs/revoke', { thing_id: thing }],
          ['DELETE', `/things/${thing}`],
          ['GET', '/certs/crl'],
        ] as const) {
          const answer = await ask(method, path, body, impatient)
          expect([method, path, answer.status]).toEqual([method, path, 503])
          expect(Number(answer.headers.get('retry-after'))).toBeGreaterThan(0)
        }
        expect((await ask('GET', `/serials/${thing}`)).json).toMatchObject({ total: 1, certs: [{ cert_serial: Serial }] })
        expect((await ask('GET', `/certs/${Serial}`)).json).not.toHaveProperty('revocation_time')
        expect((await ask('DELETE', `/things/${bare}`)).status).toBe(204)
      } finally {
        await back()
      }
      await expect.poll(async () => (await ask('DELETE', `/certs/${thing}`)).status).toBe(200)
      expect((await readCrl(await crl())).serials).toContain(Serial)
      expect(impatient.logged()).toMatch(/request not served/)
      // Neither the key nor a token.
      for (const secret of [String(stepCa.key['d']), 'eyJ'])
        for (const one of [platform, impatient]) expect(one.logged()).not.toContain(secret)
    })
  })

  describeWithPostgres('behind a control plane on a server', postgres => {
    test('while it hangs, the deletions of one user that wait for it are bounded, and delay neither things without certificates nor other users', async () => {
      const database = await openServer({ url: await postgres.createDatabase(), applicationName: 'sluice-test', connectionsMax: 8 })
      const onServer = await openPlatform(database, { certificates: stepCaOptions(stepCa) })
      const as = async () => {
        const { token: authorization } = await onServer.user()
        const ask = (method: string, path: string, body?: object): Promise<Answer> =>
          call(onServer.url, method, path, { authorization, ...(body === undefined ? {} : { body }) })
        const { json } = await ask('POST', '/things/bulk', [{ name: 'certified' }, { name: 'bare' }])
        const [certified, bare] = json!['things'] as [{ id: string }, { id: string }]
        await expectStatus(ask('POST', '/certs', { thing_id: certified.id, key_type: 'ec' }), 201)
        return { remove: () => ask('DELETE', `/things/${certified.id}`), removeBare: () => ask('DELETE', `/things/${bare.id}`) }
      }
      const [one, other] = [await as(), await as()]
      let ended = 0
      stepCa.pause()
      // One of them asks, and nine wait.
      const deletions = Array.from({ length: 40 }, () => one.remove().finally(() => ended++))
      let otherDeletion: Promise<Answer>
      try {
        await expect.poll(() => ended).toBe(30)
        expect((await one.removeBare()).status).toBe(204)
        otherDeletion = other.remove()
        expect(ended).toBe(30)
      } finally {
        stepCa.resume()
      }
      const statuses = (await Promise.all(deletions)).map(({ status }) => status)
      expect(statuses.filter(status => status === 429)).toHaveLength(30)
      expect((await otherDeletion).status).toBe(204)
      await onServer.close()
      await database.close()
    })
  })
})
