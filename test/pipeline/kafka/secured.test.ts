// Both clients come in by TLS and SASL, and say what to mend where they are not let in.

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Writable } from 'node:stream'
import { pino } from 'pino'
import { afterAll, expect, test } from 'vitest'
import { SecretError } from '../../../config/secrets.ts'
import { kafkaConnection, openKafkajs } from '../../../pipeline/kafka/connection.ts'
import { type KafkaLogSettings, openKafkaLog } from '../../../pipeline/kafka/log.ts'
import { LogUnavailableError } from '../../../pipeline/log.ts'
import { SystemicError } from '../../../pipeline/systemic-error.ts'
import { describeWithKafka } from '../../servers/kafka.ts'
import { outgoing } from '../message.ts'
import { logSettings, readTopic, silent } from './stored-messages.ts'

const mechanisms = ['plain', 'scram-sha-256', 'scram-sha-512'] as const

describeWithKafka('a broker that is not open to everybody', kafka => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-kafka-'))
  afterAll(() => rmSync(folder, { recursive: true, force: true }))

  /** The authority of the broker, in a file. */
  function caFile(): string {
    const path = join(folder, 'ca.pem')
    writeFileSync(path, kafka.secured.certificate)
    return path
  }

  function login(saslMechanism: KafkaLogSettings['saslMechanism'], password = kafka.secured.password): Partial<KafkaLogSettings> {
    return { saslMechanism, saslUsername: kafka.secured.username, saslPassword: password }
  }

  async function appendAndLookByKafkajs(brokers: readonly string[], more: Partial<KafkaLogSettings>): Promise<void> {
    const topic = await kafka.createTopic()
    const settings = logSettings(brokers, topic, more)
    const log = await openKafkaLog(settings, silent)
    await log.append([outgoing()])
    await log.close()
    expect(await readTopic(kafka.brokers, topic)).toHaveLength(1)

    const admin = (await openKafkajs(await kafkaConnection(settings), silent)).admin()
    await admin.connect()
    expect((await admin.fetchTopicOffsets(topic)).map(({ high }) => high)).toEqual(['1'])
    await admin.disconnect()
  }

  test('TLS, with the authority of its certificate from a file', () =>
    appendAndLookByKafkajs(kafka.secured.tls, { tls: true, caFile: caFile() }))

  test.each(mechanisms)('SASL %s, without TLS and with it', async mechanism => {
    await appendAndLookByKafkajs(kafka.secured.sasl, login(mechanism))
    await appendAndLookByKafkajs(kafka.secured.saslTls, { ...login(mechanism), tls: true, caFile: caFile() })
  })

  test.each(mechanisms)('a wrong password for SASL %s is a sentence that names the options and not the password', async mechanism => {
    const opening = openKafkaLog(logSettings(kafka.secured.sasl, 'any', login(mechanism, 'not the one')), silent)
    const error = (await opening.catch((error: unknown) => error)) as Error
    expect(error).toBeInstanceOf(SystemicError)
    expect(error.message).toMatch(/correct .*log\.sasl_username \(SVC_LOG_SASL_USERNAME\) and log\.sasl_password/)
    for (let one: unknown = error; one instanceof Error; one = one.cause)
      expect(JSON.stringify(one) + one.message).not.toContain('not the one')
  })

  test('a certificate that nobody vouches for, and a broker that wants TLS, are sentences that name the option', async () => {
    await expect(openKafkaLog(logSettings(kafka.secured.tls, 'any', { tls: true }), silent)).rejects.toThrow(
      /cannot be looked at .*correct log\.tls \(SVC_LOG_TLS\), log\.ca_file/,
    )
    const plain = openKafkaLog(logSettings(kafka.secured.tls, 'any'), silent)
    await expect(plain).rejects.toBeInstanceOf(SystemicError)
    await expect(plain).rejects.toThrow(/set log\.tls \(SVC_LOG_TLS\) to true/)
  })

  test('TLS to a broker that speaks none is an outage, with its reason', async () => {
    const opening = openKafkaLog(logSettings(kafka.brokers, 'any', { tls: true, caFile: caFile() }), silent)
    await expect(opening).rejects.toBeInstanceOf(LogUnavailableError)
  })

  test('a file that is no certificate is refused before anything is connected', async () => {
    const path = join(folder, 'no-certificate.pem')
    writeFileSync(path, 'nothing')
    const opening = openKafkaLog(logSettings(kafka.secured.tls, 'any', { tls: true, certFile: path, keyFile: path }), silent)
    await expect(opening).rejects.toBeInstanceOf(SecretError)
  })

  test('kafkajs writes to our log: at debug what is usual, with no field that is not named, and no secret', async () => {
    const lines: Record<string, unknown>[] = []
    const stream = new Writable({
      write(chunk: Buffer, _encoding, done) {
        lines.push(JSON.parse(chunk.toString()) as Record<string, unknown>)
        done()
      },
    })
    const settings = logSettings(kafka.secured.sasl, 'any', login('scram-sha-256', 'not the one'))
    const admin = (await openKafkajs(await kafkaConnection(settings), pino({ level: 'debug' }, stream))).admin({ retry: { retries: 0 } })
    await expect(admin.connect()).rejects.toThrow()
    await admin.disconnect()
    expect(lines.length).toBeGreaterThan(0)
    expect(lines.some(({ msg }) => String(msg).startsWith('kafkajs: '))).toBe(true)
    expect(JSON.stringify(lines)).not.toContain('not the one')
    const known = new Set([
      'level',
      'time',
      'pid',
      'hostname',
      'msg',
      'broker',
      'clientId',
      'groupId',
      'memberId',
      'topic',
      'partition',
      'error',
      'retryCount',
      'retryTime',
    ])
    expect(lines.flatMap(line => Object.keys(line)).filter(key => !known.has(key))).toEqual([])
  })
})
