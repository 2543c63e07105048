// The section `log` of the roles on Kafka, from a file and from the environment.

import { Type } from 'typebox'
import { expect, test } from 'vitest'
import { loadOptions, OptionsError } from '../../../config/options/options.ts'
import { type KafkaSourceOptions, kafkaFaults, kafkaLogOptions, kafkaSourceOptions } from '../../../pipeline/kafka/options.ts'
import { matchingTopics, topicsText, wantedTopics } from '../../../pipeline/kafka/topic-patterns.ts'
import { SystemicError } from '../../../pipeline/systemic-error.ts'

const role = Type.Object({ log: kafkaSourceOptions })

function load(environment: Record<string, string>): KafkaSourceOptions {
  return loadOptions(role, { environment }).log
}

function faultsOf(environment: Record<string, string>): string[] {
  return kafkaFaults(load(environment)).map(({ place, problem }) => `${place}: ${problem}`)
}

test('the defaults are a broker on this machine and the topic messages, which must exist, without faults', () => {
  expect(load({})).toEqual({
    brokers: ['127.0.0.1:9092'],
    clientId: 'sluice',
    tls: false,
    saslMechanism: 'none',
    connectTimeoutMs: 3000,
    requestTimeoutMs: 5000,
    topicsRefreshMs: 60_000,
    create: false,
    partitions: 12,
    replicationFactor: 0,
    encoding: 'raw',
    registryTimeoutMs: 5000,
    queueBytes: 16 * 1024 * 1024,
    appendTimeoutMs: 10_000,
    skipBatch: false,
    acceptLost: false,
  })
  expect(wantedTopics(load({}))).toEqual(['messages'])
  expect(faultsOf({})).toEqual([])
})

test('several topics, and patterns, are a list', () => {
  const environment = { SVC_LOG_TOPICS: 'hall, ^plant\\..*,^line[0-9]$' }
  expect(wantedTopics(load(environment))).toEqual(['hall', '^plant\\..*', '^line[0-9]$'])
  expect(faultsOf(environment)).toEqual([])
})

test('the variables on which container images rely', () => {
  const environment = {
    SVC_LOG_BROKERS: 'kafka-1:9092,[::1]:9093, kafka-3.example:9094',
    SVC_LOG_TOPIC: 'greenhouse',
    SVC_LOG_GROUP: 'relational',
    SVC_LOG_INSTANCE: 'plant-1',
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
    instance: 'plant-1',
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
  ['SVC_LOG_TOPICS', 'hall,a/b'],
  ['SVC_LOG_TOPICS', Array.from({ length: 128 }, (_, at) => `t${at}`).join()],
  ['SVC_LOG_NUMBERS', '0'],
  ['SVC_LOG_NUMBERS', '1,128'],
  ['SVC_LOG_GROUP', 'a group'],
  ['SVC_LOG_PARTITIONS', '4097'],
  ['SVC_LOG_SASL_MECHANISM', 'gssapi'],
  ['SVC_LOG_CLIENT', 'kafkajs'],
  ['SVC_LOG_INSTANCE', 'a plant'],
])('%s = %j is a fault that names it', (variable, value) => {
  expect(() => load({ [variable]: value })).toThrow(OptionsError)
  expect(() => load({ [variable]: value })).toThrow(variable)
})

test.each([
  [{ SVC_LOG_BROKERS: 'kafka:0' }, /^log\.brokers: kafka:0 has an invalid port/],
  [{ SVC_LOG_CA_FILE: 'ca.pem' }, /^log\.tls: certificates require TLS/],
  [{ SVC_LOG_TLS: 'true', SVC_LOG_CERT_FILE: 'c.pem' }, /^log\.cert_file: log\.cert_file and log\.key_file belong together/],
  [{ SVC_LOG_SASL_USERNAME: 'sluice' }, /^log\.sasl_mechanism: a user and a password need a mechanism/],
  [{ SVC_LOG_SASL_MECHANISM: 'plain', SVC_LOG_SASL_USERNAME: 'sluice' }, /^log\.sasl_username: plain needs a user and a password/],
  [{ SVC_LOG_ENCODING: 'confluent' }, /^log\.registry: the encoding confluent needs a schema registry/],
  [{ SVC_LOG_REGISTRY: 'ftp://schemas' }, /^log\.registry: it must be an HTTP URL/],
  [{ SVC_LOG_REGISTRY: 'http://sluice:secret@schemas' }, /^log\.registry: it contains a user or a password(?!.*secret)/],
  [{ SVC_LOG_REGISTRY_USERNAME: 'sluice' }, /^log\.registry_username: log\.registry_username and log\.registry_password belong together/],
  [{ SVC_LOG_TOPIC: 'hall', SVC_LOG_TOPICS: 'plant' }, /^log\.topics: log\.topic and log\.topics are both set: set one of them/],
  [{ SVC_LOG_TOPICS: 'hall,^plant(' }, /^log\.topics: \^plant\( is not a regular expression \(.*\): correct it/],
  [{ SVC_LOG_APPEND_TIMEOUT_MS: '1000' }, /^log\.append_timeout_ms: it is shorter than log\.request_timeout_ms of 5000/],
])('a combination of valid options is a fault: %j', (environment, fault) => {
  const faults = faultsOf(environment)
  expect(faults).toHaveLength(1)
  expect(faults[0]).toMatch(fault)
})

test('in production a publicly known password is a fault, and no fault shows it', () => {
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

test("a log without a source needs none of the source's options", () => {
  const log = loadOptions(Type.Object({ log: kafkaLogOptions }), { environment: {} }).log
  expect(Object.keys(log)).not.toContain('group')
})

test('the topics of a writer are the named ones, and the existing ones that match a pattern, each once and sorted', () => {
  const existing = ['plant.b', 'hall', 'plant.a', 'plants', 'attic']
  expect(matchingTopics(['hall', '^plant\\.', '^.lant'], existing)).toEqual(['hall', 'plant.a', 'plant.b', 'plants'])
  expect(matchingTopics(['absent', '^plant.$'], existing)).toEqual(['absent', 'plants'])
})

test('a pattern matches no internal topic, no dead letters and no sessions', () => {
  const existing = [
    '__consumer_offsets',
    '_schemas',
    '_plant',
    'messages',
    'messages.dead-letters.relational',
    'messages.mqtt-sessions',
    'messages.mqtt-retained',
  ]
  expect(matchingTopics(['^'], existing)).toEqual(['_plant', 'messages'])
})

test('more topics than a store has numbers for are an error that names the pattern that matches most', () => {
  const many = Array.from({ length: 127 }, (_, at) => `plant.${at}`)
  expect(matchingTopics(['^plant\\.'], many)).toHaveLength(127)
  const failing = (): string[] => matchingTopics(['hall', '^plant\\.1', '^plant\\.'], many)
  expect(failing).toThrow(SystemicError)
  expect(failing).toThrow(
    /^log\.topics \(SVC_LOG_TOPICS\) selects 128 topics, of which \^plant\\\. matches 127, but a writer reads at most 127: /,
  )
})

test('messages name a few of the topics', () => {
  expect(topicsText(['hall'])).toBe('the topic hall')
  expect(topicsText(['a', 'b', 'c'])).toBe('the topics a, b, c')
  expect(topicsText(['a', 'b', 'c', 'd', 'e'])).toBe('the topics a, b, c and 2 more')
})

test.each(['true', 'false'])('the switch of an earlier release is a fault that names the id: %s', text => {
  expect(() => load({ SVC_LOG_ACCEPT_NEW: text })).toThrow(
    /SVC_LOG_ACCEPT_NEW: .*the id of the log to accept, which the error of the start gives/,
  )
})
