// The section `log` of the roles on Kafka, from a file and from the environment.

import { Type } from 'typebox'
import { expect, test } from 'vitest'
import { loadOptions, OptionsError } from '../../../config/options.ts'
import { type KafkaLogOptions, kafkaFaults, kafkaLogOptions, kafkaSourceOptions } from '../../../pipeline/kafka/options.ts'

const role = Type.Object({ log: kafkaSourceOptions })

function load(environment: Record<string, string>): KafkaLogOptions {
  return loadOptions(role, { environment }).log
}

function faultsOf(environment: Record<string, string>): string[] {
  return kafkaFaults(load(environment)).map(({ place, problem }) => `${place}: ${problem}`)
}

test('without anything given it is a broker on this machine, the topic messages, and nothing at fault', () => {
  expect(load({})).toEqual({
    brokers: ['127.0.0.1:9092'],
    clientId: 'sluice',
    tls: false,
    saslMechanism: 'none',
    connectTimeoutMs: 3000,
    requestTimeoutMs: 5000,
    topic: 'messages',
    partitions: 12,
    replicationFactor: 0,
    encoding: 'raw',
    registryTimeoutMs: 5000,
    queueBytes: 16 * 1024 * 1024,
    appendTimeoutMs: 10_000,
    client: expect.stringMatching(/^(kafkajs|platformatic)$/) as string,
    acceptNew: false,
    acceptLost: false,
  })
  expect(faultsOf({})).toEqual([])
})

test('the variables that containers rely on', () => {
  const environment = {
    SVC_LOG_BROKERS: 'kafka-1:9092,[::1]:9093, kafka-3.example:9094',
    SVC_LOG_TOPIC: 'greenhouse',
    SVC_LOG_GROUP: 'relational',
    SVC_LOG_CLIENT: 'platformatic',
    SVC_LOG_ENCODING: 'confluent',
    SVC_LOG_REGISTRY: 'http://schemas:8081',
    SVC_LOG_REGISTRY_USERNAME: 'sluice',
    SVC_LOG_REGISTRY_PASSWORD: 'open barley',
    SVC_LOG_TLS: 'true',
    SVC_LOG_SASL_MECHANISM: 'scram-sha-512',
    SVC_LOG_SASL_USERNAME: 'sluice',
    SVC_LOG_SASL_PASSWORD: 'open sesame',
  }
  expect(load(environment)).toMatchObject({
    brokers: ['kafka-1:9092', '[::1]:9093', 'kafka-3.example:9094'],
    topic: 'greenhouse',
    group: 'relational',
    client: 'platformatic',
    encoding: 'confluent',
    registry: 'http://schemas:8081',
    registryUsername: 'sluice',
    registryPassword: 'open barley',
    tls: true,
    saslMechanism: 'scram-sha-512',
    saslUsername: 'sluice',
    saslPassword: 'open sesame',
  })
  expect(faultsOf(environment)).toEqual([])
})

test.each([
  ['SVC_LOG_BROKERS', 'kafka'],
  ['SVC_LOG_BROKERS', 'http://kafka:9092'],
  ['SVC_LOG_BROKERS', 'user:secret@kafka:9092'],
  ['SVC_LOG_BROKERS', ''],
  ['SVC_LOG_TOPIC', '..'],
  ['SVC_LOG_TOPIC', 'a/b'],
  ['SVC_LOG_TOPIC', 'x'.repeat(151)],
  ['SVC_LOG_GROUP', 'a group'],
  ['SVC_LOG_PARTITIONS', '4097'],
  ['SVC_LOG_SASL_MECHANISM', 'gssapi'],
  ['SVC_LOG_CLIENT', 'librdkafka'],
])('%s = %j is a fault that names it', (variable, value) => {
  expect(() => load({ [variable]: value })).toThrow(OptionsError)
  expect(() => load({ [variable]: value })).toThrow(variable)
})

test.each([
  [{ SVC_LOG_BROKERS: 'kafka:0' }, /^log\.brokers: kafka:0 has a port/],
  [{ SVC_LOG_CA_FILE: 'ca.pem' }, /^log\.tls: certificates are for TLS/],
  [{ SVC_LOG_TLS: 'true', SVC_LOG_CERT_FILE: 'c.pem' }, /^log\.cert_file: a certificate needs its key/],
  [{ SVC_LOG_SASL_USERNAME: 'sluice' }, /^log\.sasl_mechanism: a user and a password need a mechanism/],
  [{ SVC_LOG_SASL_MECHANISM: 'plain', SVC_LOG_SASL_USERNAME: 'sluice' }, /^log\.sasl_username: plain needs a user and a password/],
  [{ SVC_LOG_ENCODING: 'confluent' }, /^log\.registry: the encoding confluent needs a schema registry/],
  [{ SVC_LOG_REGISTRY: 'ftp://schemas' }, /^log\.registry: it is asked over HTTP/],
  [{ SVC_LOG_REGISTRY: 'http://sluice:secret@schemas' }, /^log\.registry: it holds a user or a password(?!.*secret)/],
  [{ SVC_LOG_REGISTRY_USERNAME: 'sluice' }, /^log\.registry_username: a user needs a password/],
  [{ SVC_LOG_APPEND_TIMEOUT_MS: '1000' }, /^log\.append_timeout_ms: it is shorter than log\.request_timeout_ms of 5000/],
])('what is right by itself and wrong together is a fault: %j', (environment, fault) => {
  const faults = faultsOf(environment)
  expect(faults).toHaveLength(1)
  expect(faults[0]).toMatch(fault)
})

test('in production a password that everybody knows is a fault, and no fault shows it', () => {
  const options = load({
    SVC_LOG_SASL_MECHANISM: 'plain',
    SVC_LOG_SASL_USERNAME: 'sluice',
    SVC_LOG_SASL_PASSWORD: 'changeme',
    SVC_LOG_REGISTRY_USERNAME: 'sluice',
    SVC_LOG_REGISTRY_PASSWORD: 'changeme',
  })
  expect(kafkaFaults(options)).toEqual([])
  const faults = kafkaFaults(options, 'production')
  expect(faults.map(({ place }) => place)).toEqual(['log.sasl_password', 'log.registry_password'])
  expect(JSON.stringify(faults)).not.toContain('changeme')
})

test('a log of its own needs nothing of what a source has', () => {
  const log = loadOptions(Type.Object({ log: kafkaLogOptions }), { environment: {} }).log
  expect(Object.keys(log)).not.toContain('group')
})
