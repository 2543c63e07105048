// `sluice up` over TLS: a device publishes with a certificate of the platform's own authority.

import { expect, test } from 'vitest'
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
