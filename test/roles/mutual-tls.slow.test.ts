// `sluice api` and `sluice ingest` with certificates in files and without a token, on an internal listener that other machines reach.

import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { describeWithKafka } from '../servers/kafka.ts'
import { describeWithPostgres } from '../servers/postgres.ts'
import { expectStatus, makeSite, publish } from '../up/operator.ts'
import { apiEnvironment, apiWords, ingestWords, spawnRole, untilHealth, untilPrinted, whenReady } from './processes.ts'

const fixture = (name: string): string => fileURLToPath(new URL(`../control-plane/internal/fixtures/${name}`, import.meta.url))

describeWithKafka('mutual TLS of processes', kafka =>
  describeWithPostgres('with an api', postgres => {
    test('who shows a certificate of the authority is answered; who shows none, or that of another, is not', async () => {
      const { SVC_CONTROL_TOKEN: _, ...withoutToken } = apiEnvironment(await postgres.createDatabase(), {
        SVC_INTERNAL_LISTEN: '0.0.0.0:0',
        SVC_INTERNAL_CERT_FILE: fixture('server.pem'),
        SVC_INTERNAL_KEY_FILE: fixture('server-key.pem'),
        SVC_INTERNAL_CA_FILE: fixture('ca.pem'),
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
          SVC_CONTROL_CA_FILE: fixture('ca.pem'),
          ...certificates,
        })
      const pair = (name: string): Record<string, string> => ({
        SVC_CONTROL_CERT_FILE: fixture(`${name}.pem`),
        SVC_CONTROL_KEY_FILE: fixture(`${name}-key.pem`),
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
