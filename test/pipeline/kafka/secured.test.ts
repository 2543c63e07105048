// A log and a source connect by TLS and SASL, and name the option to fix if they are refused.

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { SecretError } from '../../../config/secrets.ts'
import { kafkaConnection } from '../../../pipeline/kafka/connection.ts'
import { type KafkaLogSettings, openKafkaLog } from '../../../pipeline/kafka/log.ts'
import { LogUnavailableError } from '../../../pipeline/log.ts'
import { SystemicError } from '../../../pipeline/systemic-error.ts'
import { describeWithKafka } from '../../servers/kafka.ts'
import { outgoing } from '../message.ts'
import { sourcesOf, textsOf } from './consumer/source-parts.ts'
import { logSettings, readTopic, silent } from './stored-messages.ts'

const mechanisms = ['plain', 'scram-sha-256', 'scram-sha-512'] as const

describeWithKafka('a broker with TLS and authentication', kafka => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-kafka-'))
  afterAll(() => rmSync(folder, { recursive: true, force: true }))

  /** The broker's authority, in a file. */
  function caFile(): string {
    const path = join(folder, 'ca.pem')
    writeFileSync(path, kafka.secured.certificate)
    return path
  }

  function login(saslMechanism: KafkaLogSettings['saslMechanism'], password = kafka.secured.password): Partial<KafkaLogSettings> {
    return { saslMechanism, saslUsername: kafka.secured.username, saslPassword: password }
  }

  async function appendAndRead(brokers: readonly string[], more: Partial<KafkaLogSettings>): Promise<void> {
    const topic = await kafka.createTopic()
    const settings = logSettings(brokers, topic, more)
    const log = await openKafkaLog(settings, silent)
    await log.append([outgoing()])
    await log.close()
    expect(await readTopic(kafka.brokers, topic)).toHaveLength(1)

    const sources = sourcesOf(brokers, topic)
    const connection = await kafkaConnection(settings)
    for await (const chunk of sources.open({ connection }).chunks(new AbortController().signal)) {
      expect(textsOf(chunk)).toHaveLength(1)
      break
    }
    await sources.close()
  }

  test('TLS, with the certificate authority from a file', () => appendAndRead(kafka.secured.tls, { tls: true, caFile: caFile() }))

  test.each(mechanisms)('SASL %s, without TLS and with it', async mechanism => {
    await appendAndRead(kafka.secured.sasl, login(mechanism))
    await appendAndRead(kafka.secured.saslTls, { ...login(mechanism), tls: true, caFile: caFile() })
  })

  test.each(mechanisms)('a wrong password for SASL %s is an error that names the options and not the password', async mechanism => {
    const opening = openKafkaLog(logSettings(kafka.secured.sasl, 'any', login(mechanism, 'not the one')), silent)
    const error = (await opening.catch((error: unknown) => error)) as Error
    expect(error).toBeInstanceOf(SystemicError)
    expect(error.message).toMatch(/correct .*log\.sasl_username \(SVC_LOG_SASL_USERNAME\) and log\.sasl_password/)
    for (let one: unknown = error; one instanceof Error; one = one.cause)
      expect(JSON.stringify(one) + one.message).not.toContain('not the one')
  })

  test('an untrusted certificate, and a broker that requires TLS, are errors that name the option', async () => {
    await expect(openKafkaLog(logSettings(kafka.secured.tls, 'any', { tls: true }), silent)).rejects.toThrow(
      /cannot be described .*correct log\.tls \(SVC_LOG_TLS\), log\.ca_file/,
    )
    const plain = openKafkaLog(logSettings(kafka.secured.tls, 'any'), silent)
    await expect(plain).rejects.toBeInstanceOf(SystemicError)
    await expect(plain).rejects.toThrow(/set log\.tls \(SVC_LOG_TLS\) to true/)
  })

  test('TLS to a broker without TLS is an outage, with its reason', async () => {
    const opening = openKafkaLog(logSettings(kafka.brokers, 'any', { tls: true, caFile: caFile() }), silent)
    await expect(opening).rejects.toBeInstanceOf(LogUnavailableError)
  })

  test('a file that is not a certificate is refused before anything is connected', async () => {
    const path = join(folder, 'no-certificate.pem')
    writeFileSync(path, 'nothing')
    const opening = openKafkaLog(logSettings(kafka.secured.tls, 'any', { tls: true, certFile: path, keyFile: path }), silent)
    await expect(opening).rejects.toBeInstanceOf(SecretError)
  })
})
