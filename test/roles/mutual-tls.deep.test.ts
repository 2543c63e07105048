// `sluice api` and `sluice ingest` with certificate files: for processes, on an internal listener that other machines can reach, and for devices.

import { expect, test } from 'vitest'
import { endsWithinASecond, fixturePath, openDevice } from '../pipeline/ingest/device.ts'
import { describeWithKafka } from '../servers/kafka.ts'
import { describeWithPostgres } from '../servers/postgres.ts'
import { call, expectStatus, makeSite, publish } from '../up/operator.ts'
import {
  apiEnvironment,
  apiWords,
  ingestWords,
  spawnRole,
  startApi,
  startIngest,
  untilHealth,
  untilPrinted,
  whenReady,
} from './processes.ts'

describeWithKafka('mutual TLS of processes', kafka =>
  describeWithPostgres('with an api', postgres => {
    test('a client with a certificate of the authority is answered; one without, or with that of another authority, is not', async () => {
      const { SVC_CONTROL_TOKEN: _, ...withoutToken } = apiEnvironment(await postgres.createDatabase(), {
        SVC_INTERNAL_LISTEN: '0.0.0.0:0',
        SVC_INTERNAL_CERT_FILE: fixturePath('server'),
        SVC_INTERNAL_KEY_FILE: fixturePath('server-key'),
        SVC_INTERNAL_CA_FILE: fixturePath('ca'),
      })
      const api = await whenReady(spawnRole(apiWords, withoutToken))
      expect(api.internalUrl).toMatch(/^https:\/\/127\.0\.0\.1:/)
      const site = await makeSite(api.url)
      const topic = await kafka.createTopic()

      const startIngest = (certificates: Readonly<Record<string, string>>): ReturnType<typeof spawnRole> =>
        spawnRole(ingestWords, {
          SVC_LOG_BROKERS: kafka.brokers.join(','),
          SVC_LOG_TOPIC: topic,
          SVC_INTERNAL_LISTEN: '127.0.0.1:0',
          SVC_CONTROL_URL: api.internalUrl,
          SVC_CONTROL_CA_FILE: fixturePath('ca'),
          ...certificates,
        })
      const pair = (name: string): Record<string, string> => ({
        SVC_CONTROL_CERT_FILE: fixturePath(name),
        SVC_CONTROL_KEY_FILE: fixturePath(`${name}-key`),
      })

      const ingest = await whenReady(startIngest(pair('client')))
      await untilHealth(ingest, 'control-plane', 'pass')
      await expectStatus(publish(ingest.url, site, [{ n: 'count', v: 1 }]), 202)
      for (const certificates of [{}, pair('stranger')]) {
        const { child, printed, ended } = startIngest(certificates)
        await untilPrinted({ printed }, /the control plane is away .*: the start waits for it/)
        child.kill('SIGTERM')
        expect(await ended).toBe(0)
        expect(printed()).not.toMatch(/^ready on /m)
      }
      expect(await ingest.stop()).toBe(0)
      expect(await api.stop()).toBe(0)
    })
  }),
)

describeWithPostgres('certificates of devices', postgres => {
  test('a device publishes to a separate ingest with a certificate, until it is revoked: its connection is closed within a second', async () => {
    const api = await startApi(await postgres.createDatabase())
    const site = await makeSite(api.url)
    const ingest = await startIngest(api.internalUrl, {
      SVC_HTTP_CERT_FILE: fixturePath('server'),
      SVC_HTTP_KEY_FILE: fixturePath('server-key'),
      SVC_INGEST_CLIENT_CERTIFICATES: 'tls',
    })
    expect(ingest.url).toMatch(/^https:/)
    await untilHealth(ingest, 'control-plane', 'pass')
    const body = { thing_id: site.thing, key_type: 'ec' }
    const { json } = await expectStatus(call(api.url, 'POST', '/certs', { authorization: site.owner, body }), 201)
    const shown = { cert: String(json!['ClientCert']), key: String(json!['ClientKey']) }
    const device = openDevice(Number(new URL(ingest.url).port), site.channel, shown)
    expect((await device.publish()).status).toBe(202)
    const socket = device.socket()
    await expectStatus(call(api.url, 'DELETE', '/certs/revoke', { authorization: site.owner, body: { thing_id: site.thing } }), 200)
    await endsWithinASecond(socket)
    expect((await device.publish()).status).toBe(401)
    expect(await ingest.stop()).toBe(0)
    expect(await api.stop()).toBe(0)
  })
})
