// `sluice up` with certificates: of its own authority over TLS, and of an authority elsewhere that hangs.

import { X509Certificate } from 'node:crypto'
import { request } from 'node:http'
import { expect, onTestFinished, test } from 'vitest'
import { startVaultStandIn } from '../control-plane/certificates/authorities/vault-stand-in.ts'
import { fixturePath, openDevice, publish } from '../pipeline/ingest/device.ts'
import { type Answer, call, expectStatus, makeSite } from './operator.ts'
import { startedFolder, startPlatform } from './platform.ts'

test('a device publishes with a certificate, and without one its key is required', async () => {
  await using folder = await startedFolder()
  const data = folder.path
  const plain = await startPlatform({ data })
  const site = await makeSite(plain.url)
  const body = { thing_id: site.thing, key_type: 'ec' }
  const { json } = await expectStatus(call(plain.url, 'POST', '/certs', { authorization: site.owner, body }), 201)
  await plain.stop()

  const environment = {
    SVC_HTTP_CERT_FILE: fixturePath('server'),
    SVC_HTTP_KEY_FILE: fixturePath('server-key'),
    SVC_INGEST_CLIENT_CERTIFICATES: 'tls',
  }
  const platform = await startPlatform({ data, environment })
  const port = Number(new URL(platform.url).port)
  const shown = { cert: String(json!['ClientCert']), key: String(json!['ClientKey']) }
  expect((await openDevice(port, site.channel, shown).publish()).status).toBe(202)
  expect((await openDevice(port, site.channel, undefined).publish()).status).toBe(401)
  expect(await platform.stop()).toBe(0)
})

test('what is revoked while an authority elsewhere hangs gives no access and delays nothing; once the process is killed, the next one sends it to the authority', async () => {
  const vault = await startVaultStandIn()
  onTestFinished(() => vault.stop())
  await using folder = await startedFolder()
  const environment = {
    SVC_CERTIFICATES_BACKEND: 'vault',
    SVC_CERTIFICATES_VAULT_URL: vault.url,
    SVC_CERTIFICATES_VAULT_TOKEN: vault.token,
    SVC_CERTIFICATES_VAULT_MOUNT: vault.mount,
    SVC_CERTIFICATES_VAULT_ROLE: vault.role,
    SVC_CERTIFICATES_VAULT_TIMEOUT_MS: '60000',
    SVC_HTTP_TRUSTED_PROXIES: '127.0.0.1',
    SVC_INGEST_CLIENT_CERTIFICATES: 'header',
  }
  let platform = await startPlatform({ data: folder.path, environment })
  const { owner, thing, channel } = await makeSite(platform.url)
  const ask = async (method: string, path: string, body?: object) =>
    call(platform.url, method, path, { authorization: owner, ...(body === undefined ? {} : { body }) })
  const issue = () => ask('POST', '/certs', { thing_id: thing, key_type: 'ec' })
  const publishWith = async ({ json }: Answer): Promise<number | undefined> => {
    const certificate = new X509Certificate(String(json!['ClientCert']))
    const headers = { 'client-cert': `:${certificate.raw.toString('base64')}:` }
    return (await publish(request, { port: new URL(platform.url).port }, channel, headers)).status
  }
  const [kept, revoked] = [await expectStatus(issue(), 201), await expectStatus(issue(), 201)]
  expect([await publishWith(kept), await publishWith(revoked)]).toEqual([202, 202])

  vault.behaves('silent')
  const waiting = Promise.allSettled([issue(), ask('GET', '/certs/crl')])
  await expectStatus(ask('DELETE', '/certs/revoke', { thing_id: thing, serial: revoked.json!['Serial'] }), 200)
  // The two that need the authority, and the delivery of the revocation.
  await vault.silence(3)
  // Reads and writes of the one database.
  await expectStatus(ask('GET', `/serials/${thing}`), 200)
  await expectStatus(ask('POST', '/things/bulk', [{ name: 'another' }]), 201)
  expect([await publishWith(kept), await publishWith(revoked)]).toEqual([202, 401])
  await platform.stop('SIGKILL')
  expect((await waiting).map(({ status }) => status)).toEqual(['rejected', 'rejected'])
  expect(vault.valid()).toEqual([kept.json!['Serial'], revoked.json!['Serial']])

  platform = await startPlatform({ data: folder.path, environment })
  expect([await publishWith(kept), await publishWith(revoked)]).toEqual([202, 401])
  vault.behaves('usual')
  vault.disconnect()
  await expect.poll(() => vault.valid()).toEqual([kept.json!['Serial']])
  expect(await publishWith(kept)).toBe(202)
  expect(await platform.stop()).toBe(0)
})
