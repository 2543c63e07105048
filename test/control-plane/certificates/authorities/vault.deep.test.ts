// Certificates of a Vault or OpenBao server: what every authority promises, over a stand-in for its API, and how a control plane handles a strange one.
//
// With VAULT_ADDR and VAULT_TOKEN in the environment, also over that server: a mount and a role are created there, and removed.

import { randomBytes, randomUUID, X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import type { Authority } from '../../../../control-plane/certificates/authorities/authority.ts'
import { openVault } from '../../../../control-plane/certificates/authorities/vault.ts'
import type { CertificatesOptions } from '../../../../control-plane/certificates/options.ts'
import { certificateCredential, noChannel } from '../../../../control-plane/client.ts'
import { certificateAuthorityConformance } from '../../../conformance/certificate-authority.ts'
import { openFreshEmbedded } from '../../../servers/embedded.ts'
import { temporaryFolder } from '../../../temporary-folder.ts'
import { type Answer, call } from '../../../up/operator.ts'
import { openPlatform, type Platform, type User } from '../../platform.ts'
import { ownCertificates } from '../certificates-options.ts'
import { makeCsr, readCrl } from '../openssl.ts'
import { keptCertificates } from './kept-certificates.ts'
import { startVaultStandIn, type VaultStandIn } from './vault-stand-in.ts'

type Options = CertificatesOptions['vault']

describe('vault', () => {
  let vault: VaultStandIn
  let platform: Platform
  /** On the same database, for requests that the server does not answer. */
  let impatient: Platform
  beforeAll(async () => {
    vault = await startVaultStandIn()
    const certificates = (vault: Options): CertificatesOptions => ({ ...ownCertificates, backend: 'vault', vault })
    platform = await openPlatform(await openFreshEmbedded(), { certificates: certificates(options()) })
    impatient = await openPlatform(platform.database, { certificates: certificates(options({ timeoutMs: 500 })) })
  })
  afterEach(() => {
    vault.behaves('usual')
    vault.setRole({})
    vault.setToken()
    vault.setTokenLife(0, 0)
  })
  afterAll(async () => {
    await impatient?.close()
    await platform?.close()
    await platform?.database.close()
    await vault?.stop()
  })
  const options = (more: Partial<Options> = {}): Options => {
    const { url, token, mount, role } = vault
    return { url, token, mount, role, timeoutMs: 60_000, ...more }
  }
  const open = async (more: Partial<Options>): Promise<Authority> => {
    const authority = openVault(options(more))
    onTestFinished(() => authority.close())
    await authority.start()
    return authority
  }

  describe('stand-in', () =>
    certificateAuthorityConformance(async () => {
      const authority = openVault(options())
      await authority.start()
      return { authority, database: platform.database, root: async () => vault.root, ...keptCertificates(platform.database, authority) }
    }))

  const { VAULT_ADDR: url, VAULT_TOKEN: token = '' } = process.env
  const onRealServer = (url: string): void => {
    const mount = `sluice-${randomUUID()}`
    const ask = async (method: string, path: string, body?: object): Promise<Answer> => {
      const answer = await call(url, method, `/v1/${path}`, {
        headers: { 'x-vault-token': token },
        ...(body === undefined ? {} : { body }),
      })
      if (answer.status >= 400) throw new Error(`${path}: ${answer.status} ${answer.text}`)
      return answer
    }
    beforeAll(async () => {
      await ask('POST', `sys/mounts/${mount}`, { type: 'pki', config: { max_lease_ttl: '87600h' } })
      await ask('POST', `${mount}/root/generate/internal`, { common_name: 'Test Root', ttl: '87600h', key_type: 'ec', key_bits: 256 })
      const names = { allow_any_name: true, use_csr_common_name: false, use_csr_sans: false }
      await ask('POST', `${mount}/roles/things`, { ...names, key_type: 'any', max_ttl: '8760h', no_store: false })
    })
    afterAll(() => ask('DELETE', `sys/mounts/${mount}`))
    certificateAuthorityConformance(async () => {
      const authority = openVault({ url, token, mount, role: 'things', timeoutMs: 60_000 })
      await authority.start()
      const root = async () => (await call(url, 'GET', `/v1/${mount}/ca/pem`)).text
      return { authority, database: platform.database, root, ...keptCertificates(platform.database, authority) }
    })
  }
  if (url !== undefined) describe('real server', () => onRealServer(url))

  test('the check fails in the last tenth of the life of the token, and once it has ended, and the log says so once', async () => {
    const check = platform.plane.checkCertificates!
    await check()
    vault.setTokenLife(360, 3_600)
    await check()
    expect(platform.logged()).not.toContain('no certificates can be issued')
    vault.setTokenLife(359, 3_600)
    for (let nth = 0; nth < 2; nth++)
      await expect(check()).rejects.toThrow('the token of Vault ends in 359 s, of 3600: renew or replace the token')
    expect(platform.logged().split('no certificates can be issued')).toHaveLength(2)
    vault.setToken('another')
    await expect(check()).rejects.toMatchObject({
      code: 'unavailable',
      cause: { message: expect.stringContaining('; renew or replace the token') },
    })
    vault.setToken()
    vault.setTokenLife(3_600, 3_600)
    await check()
    vault.setTokenLife(1, 3_600)
    await expect(check()).rejects.toThrow('ends in 1 s')
    expect(platform.logged().split('no certificates can be issued')).toHaveLength(3)
  })

  test('a CRL of half a million certificates is returned', async () => {
    const crl = randomBytes(17 * 1024 * 1024)
    const server = createServer((_request, response) => void response.end(crl)).listen(0, '127.0.0.1')
    onTestFinished(() => void server.close())
    await once(server, 'listening')
    const authority = await open({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` })
    expect((await authority.crl()).equals(crl)).toBe(true)
  })

  describe('behind a control plane', () => {
    let user: User
    let thing: string
    beforeEach(async () => {
      user = await platform.user()
      thing = ((await ask('POST', '/things/bulk', [{ name: 'device' }])).json!['things'] as [{ id: string }])[0].id
    })
    const ask = (method: string, path: string, body?: object, on = platform): Promise<Answer> =>
      call(on.url, method, path, { authorization: user.token, ...(body === undefined ? {} : { body }) })
    const issue = (more: object = {}, on = platform): Promise<Answer> =>
      ask('POST', '/certs', { thing_id: thing, key_type: 'ec', ...more }, on)
    const total = async (): Promise<unknown> => (await ask('GET', `/serials/${thing}`)).json!['total']

    test('a certificate is issued and revoked over HTTP, and the chain is returned', async () => {
      const { status, json } = await issue()
      expect([status, json]).toMatchObject([201, { IssuingCA: vault.root, CAChain: [vault.root], ca_chain: [vault.root] }])
      expect((await ask('DELETE', `/things/${thing}`)).status).toBe(204)
      const crl = async () => Buffer.from(await (await fetch(`${platform.url}/certs/crl`)).arrayBuffer())
      await expect.poll(async () => (await readCrl(await crl())).serials).toContain(json!['Serial'])
    })

    test.each(['sealed', 'silent', 'strange'] as const)('while it is %s: 503 for a certificate, and nothing is stored', async behaviour => {
      vault.behaves(behaviour)
      expect((await issue({}, impatient)).status).toBe(503)
      if (behaviour !== 'strange') expect((await ask('GET', '/certs/crl', undefined, impatient)).status).toBe(503)
      vault.behaves('usual')
      expect(await total()).toBe(0)
      for (const one of [platform, impatient]) expect(one.logged()).not.toContain(vault.token)
    })

    test('a request that the role does not allow is a 400 with its reason', async () => {
      vault.setRole({ allowsAnyName: false })
      const { status, json } = await issue()
      expect([status, json!['detail']]).toEqual([
        400,
        `the certificate authority refuses the request: common name ${thing} not allowed by this role`,
      ])
    })

    test('if the role allows less time than requested, the answer says so', async () => {
      vault.setRole({ maxTtlSeconds: 7_200 })
      const { json } = await issue({ ttl: '48h' })
      expect(Math.abs(Date.parse(String(json!['Expire'])) - Date.now() - 7_200_000)).toBeLessThan(60_000)
    })

    test.each<[string, string, string[]]>([
      ['common name', '/CN=another subject', []],
      ['alternative names', '/', ['-addext', 'subjectAltName=DNS:other.example']],
    ])('with a role that copies the %s of a CSR the certificate is revoked and not handed out', async (_name, subject, more) => {
      vault.setRole({ usesCsrNames: true })
      const before = vault.valid()
      expect((await issue({ csr: (await makeCsr(subject, undefined, more)).csr })).status).toBe(503)
      await expect.poll(() => vault.valid()).toEqual(before)
      // The CRL names it.
      expect((await ask('GET', `/serials/${thing}`)).json).toMatchObject({ total: 1, certs: [{ revocation_time: expect.any(String) }] })
      expect(platform.logged()).toContain('not what it was asked for')
    })

    test.each<[string, Partial<Options>, string]>([
      ['a token without the right', { token: 'other' }, '403 to POST /v1/pki/devices/sign/things: {"errors":["permission denied"]}'],
      ['an absent mount', { mount: 'other' }, '404 to POST /v1/other/sign/things: '],
      ['an absent role', { role: 'other' }, '400 to POST /v1/pki/devices/sign/other: {"errors":["unknown role: other"]}'],
      ['an absent role, also', { role: 'other' }, 'create the role, or correct certificates.vault.role (SVC_CERTIFICATES_VAULT_ROLE)'],
    ])('%s is a 503, and the log names mount and role', async (_name, wrong, logged) => {
      const authority = await open(wrong)
      const signed = authority.sign({ thing: thing as never, ...(await makeCsr('/')).request, ttlSeconds: 3600 })
      const cause = { message: expect.stringContaining(logged) }
      await expect(signed).rejects.toMatchObject({ code: 'unavailable', message: expect.stringContaining('try again'), cause })
    })

    test('after a change of the authority, certificates of the previous one give no access, and are neither listed nor revoked, also when their thing is deleted', async () => {
      const before = await openPlatform(platform.database, { certificates: ownCertificates })
      onTestFinished(() => before.close())
      const body = { thing_id: thing, key_type: 'ec' }
      const { json } = await call(before.url, 'POST', '/certs', { authorization: user.token, body })
      const serial = String(json!['Serial'])
      const credential = certificateCredential(new X509Certificate(String(json!['ClientCert'])))
      const access = async (on: Platform) =>
        on.plane.access.authorize({ credential, channel: noChannel, action: 'publish' }).then(answer => !answer.allowed && answer.reason)
      expect([await access(before), await access(platform)]).toEqual(['forbidden', 'unauthenticated'])
      expect([await total(), (await ask('GET', `/certs/${serial}`)).status]).toEqual([0, 403])
      expect((await ask('DELETE', `/certs/${thing}`)).status).toBe(404)
      expect((await ask('DELETE', `/things/${thing}`)).status).toBe(204)
      const crl = Buffer.from(await (await fetch(`${before.url}/certs/crl`)).arrayBuffer())
      expect((await readCrl(crl)).serials).not.toContain(serial)
      expect(await access(before)).toBe('unauthenticated')
    })

    test('a token in a file is read before each request, and a missing file is a 503', async () => {
      const tokenFile = `${temporaryFolder()}/token`
      writeFileSync(tokenFile, `${vault.token}\n`)
      const { token: _, ...rest } = options()
      const authority = openVault({ ...rest, tokenFile })
      onTestFinished(() => authority.close())
      await authority.start()
      const sign = async () => authority.sign({ thing: thing as never, ...(await makeCsr('/')).request, ttlSeconds: 3600 })
      expect(await sign()).toMatchObject({ issuingCa: vault.root })
      vault.setToken('s.renewed')
      await expect(sign()).rejects.toMatchObject({ code: 'unavailable' })
      writeFileSync(tokenFile, 's.renewed\n')
      const { certificate } = await sign()
      await authority.revoke(new X509Certificate(certificate).serialNumber.toLowerCase())
      writeFileSync(tokenFile, '')
      await expect(sign()).rejects.toMatchObject({ code: 'unavailable' })
      rmSync(tokenFile)
      await expect(sign()).rejects.toMatchObject({ code: 'unavailable' })
      await expect(openVault({ ...rest, tokenFile }).start()).rejects.toThrow(/^certificates\.vault\.token_file: the file .* \(ENOENT\)/)
    })
  })
})
