// `sluice up` with certificates: of its own authority over TLS, and of an authority elsewhere that hangs.

import { expect, onTestFinished, test } from 'vitest'
import { startVaultStandIn } from '../control-plane/certificates/authorities/vault-stand-in.ts'
import { fixturePath, openDevice } from '../pipeline/ingest/device.ts'
import { call, expectStatus, makeSite } from './operator.ts'
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

test('while an authority elsewhere hangs, only requests for certificates wait, and what it signs when the process is killed still counts', async () => {
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
  }
  let platform = await startPlatform({ data: folder.path, environment })
  const { owner, thing } = await makeSite(platform.url)
  const ask = async (method: string, path: string, body?: object) =>
    call(platform.url, method, path, { authorization: owner, ...(body === undefined ? {} : { body }) })
  const issue = () => ask('POST', '/certs', { thing_id: thing, key_type: 'ec' })
  const { json } = await expectStatus(issue(), 201)
  vault.behaves('silent')
  let ended = 0
  const waiting = [issue(), ask('DELETE', `/certs/${thing}`), ask('DELETE', `/things/${thing}`), ask('GET', '/certs/crl')]
  const statuses = Promise.all(waiting.map(async one => (await one.finally(() => ended++)).status))
  // Of the two that revoke, one waits for the other.
  await vault.silence(3)
  // Reads and writes of the one database.
  await expectStatus(ask('GET', `/serials/${thing}`), 200)
  await expectStatus(ask('POST', '/things/bulk', [{ name: 'another' }]), 201)
  expect(ended).toBe(0)
  vault.behaves('sealed')
  vault.disconnect()
  expect(await statuses).toEqual([503, 503, 503, 503])
  vault.behaves('usual')
  expect(vault.valid()).toEqual([json!['Serial']])

  const { arrived, release } = vault.hold()
  const killed = issue().catch((error: unknown) => error)
  await arrived
  await platform.stop('SIGKILL')
  release()
  expect(await killed).toBeInstanceOf(Error)
  platform = await startPlatform({ data: folder.path, environment: { ...environment, SVC_CERTIFICATES_VALID_MAX: '2' } })
  await expectStatus(issue(), 429)
  await expectStatus(ask('DELETE', `/certs/${thing}`), 200)
  const { json: last } = await expectStatus(issue(), 201)
  await expectStatus(ask('DELETE', `/things/${thing}`), 204)
  // Nothing is known of the one that was signed for the killed process.
  expect(vault.valid()).toHaveLength(1)
  expect(vault.valid()).not.toContain(last!['Serial'])
  expect(await platform.stop()).toBe(0)
})
