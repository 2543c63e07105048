// The section `log` of the roles that work on Kafka: how it is reached, which topic, and what may wait.

import { type Static, Type } from 'typebox'
import type { OptionFault } from '../../config/options.ts'
import { knownSecretFaults } from '../../config/production.ts'
import { logOptions } from '../options.ts'

/** A position in a store has 12 bits for the partition. */
export const partitionsMax = 4096

/** What becomes of a topic that is not there. */
const topicProperties = {
  partitions: Type.Integer({
    default: 12,
    minimum: 1,
    maximum: partitionsMax,
    description: 'Partitions of a topic that is made because it is missing. A topic that is there keeps its own.',
  }),
  replicationFactor: Type.Integer({
    default: 0,
    minimum: 0,
    maximum: 100,
    description: "Copies of each message in a topic that is made; 0 is the broker's default.",
  }),
}

/** How brokers are reached, by either client. */
const connectionProperties = {
  brokers: Type.Array(Type.String({ pattern: '^([^\\s:,/@\\[\\]]+|\\[[0-9a-fA-F:.]+\\]):\\d{1,5}$', allowed: 'host:port' }), {
    default: ['127.0.0.1:9092'],
    minItems: 1,
    description: 'Kafka brokers to begin with; they name the others.',
  }),
  clientId: Type.String({
    default: 'sluice',
    pattern: '^[a-zA-Z0-9._-]{1,100}$',
    description: 'Name under which the brokers see this process, for their logs and quotas.',
  }),
  tls: Type.Boolean({ default: false, description: 'Encrypt, and check that the brokers are who they say.' }),
  caFile: Type.Optional(
    Type.String({ minLength: 1, description: "Authority of the brokers' certificates, as PEM, in place of the system's." }),
  ),
  certFile: Type.Optional(Type.String({ minLength: 1, description: 'Certificate to show to the brokers (mutual TLS), as PEM.' })),
  keyFile: Type.Optional(Type.String({ minLength: 1, description: 'Private key of that certificate, as PEM.' })),
  saslMechanism: Type.Enum(['none', 'plain', 'scram-sha-256', 'scram-sha-512'], {
    default: 'none',
    description: 'How this process says who it is. With `plain` the password is sent as it is: use TLS.',
  }),
  saslUsername: Type.Optional(Type.String({ minLength: 1, description: 'Its user.' })),
  saslPassword: Type.Optional(Type.String({ minLength: 1, secret: true, description: "That user's password." })),
  connectTimeoutMs: Type.Integer({
    default: 3_000,
    minimum: 100,
    maximum: 120_000,
    description: 'Milliseconds after which a broker that cannot be connected is given up, and the next one tried.',
  }),
  requestTimeoutMs: Type.Integer({
    default: 5_000,
    minimum: 500,
    maximum: 300_000,
    description: 'Milliseconds after which a request without an answer is given up, and its connection with it.',
  }),
}

/** Of a role that appends: `ingest`, and the dead letters of a writer. */
const appendProperties = {
  queueBytes: logOptions.properties.queueBytes,
  appendTimeoutMs: Type.Integer({
    default: 10_000,
    minimum: 1_000,
    maximum: 600_000,
    description: 'Milliseconds after which a message that no broker has acknowledged is refused; publishers are answered 503.',
  }),
}

export const kafkaLogOptions = Type.Object({
  ...connectionProperties,
  topic: Type.String({
    default: 'messages',
    pattern: '^(?!\\.{1,2}$)[a-zA-Z0-9._-]{1,150}$',
    allowed: '1 to 150 of the characters a-z A-Z 0-9 . _ -',
    description: 'Topic of the messages.',
  }),
  ...topicProperties,
  encoding: Type.Enum(['raw', 'confluent'], {
    default: 'raw',
    description: 'How messages lie in the topic: `raw` is the payload with the envelope in headers, `confluent` an Avro envelope.',
  }),
  registry: Type.Optional(
    Type.String({
      format: 'url',
      allowed: 'a URL such as http://schemas:8081',
      description: 'Schema registry of the encoding `confluent`.',
    }),
  ),
  registryUsername: Type.Optional(Type.String({ minLength: 1, description: 'User of the schema registry, where it asks for one.' })),
  registryPassword: Type.Optional(Type.String({ minLength: 1, secret: true, description: "That user's password." })),
  registryTimeoutMs: Type.Integer({
    default: 5_000,
    minimum: 100,
    maximum: 300_000,
    description: 'Milliseconds after which a question to the schema registry is given up; it is asked again.',
  }),
  ...appendProperties,
})
export type KafkaLogOptions = Static<typeof kafkaLogOptions>

/** Of a role that reads: a writer. */
export const kafkaSourceOptions = Type.Object({
  ...kafkaLogOptions.properties,
  // A part of the name of the dead letters' topic, which has 249 characters at most.
  group: Type.Optional(
    Type.String({
      pattern: '^[a-zA-Z0-9._-]{1,80}$',
      allowed: '1 to 80 of the characters a-z A-Z 0-9 . _ -',
      description: "Consumer group, and the name of the writer; the store's name if not given.",
    }),
  ),
  client: Type.Enum(['kafkajs', 'platformatic'], { default: 'platformatic', description: 'The Kafka client that reads.' }),
  acceptNew: logOptions.properties.acceptNew,
  acceptLost: logOptions.properties.acceptLost,
})
export type KafkaSourceOptions = Static<typeof kafkaSourceOptions>

/** What is right by itself and wrong together. */
export function kafkaFaults(options: KafkaLogOptions, env: 'development' | 'production' = 'development'): OptionFault[] {
  const { tls, caFile, certFile, keyFile, saslMechanism, saslUsername, saslPassword, brokers } = options
  const faults: OptionFault[] = []
  const note = (key: string, problem: string): void => void faults.push({ place: `log.${key}`, problem })
  for (const broker of brokers) {
    const port = Number(broker.slice(broker.lastIndexOf(':') + 1))
    if (port < 1 || port > 65_535) note('brokers', `${broker} has a port that cannot be: give host:port with a port from 1 to 65535`)
  }
  if (!tls && [caFile, certFile, keyFile].some(file => file !== undefined)) {
    note('tls', 'certificates are for TLS: set it to true, or leave log.ca_file, log.cert_file and log.key_file out')
  }
  if ((certFile === undefined) !== (keyFile === undefined)) {
    note('cert_file', 'a certificate needs its key, and a key its certificate: give both or none')
  }
  if (saslMechanism === 'none' && (saslUsername !== undefined || saslPassword !== undefined)) {
    note('sasl_mechanism', 'a user and a password need a mechanism: give plain, scram-sha-256 or scram-sha-512')
  }
  if (saslMechanism !== 'none' && (saslUsername === undefined || saslPassword === undefined)) {
    note('sasl_username', `${saslMechanism} needs a user and a password: set SVC_LOG_SASL_USERNAME and SVC_LOG_SASL_PASSWORD`)
  }
  noteRegistryFaults(options, note)
  if (options.appendTimeoutMs < options.requestTimeoutMs) {
    note('append_timeout_ms', `it is shorter than log.request_timeout_ms of ${options.requestTimeoutMs}: one request would outlast it`)
  }
  return [...faults, ...knownSecretFaults(env, { 'log.sasl_password': saslPassword, 'log.registry_password': options.registryPassword })]
}

function noteRegistryFaults(options: KafkaLogOptions, note: (key: string, problem: string) => void): void {
  const { encoding, registry, registryUsername, registryPassword } = options
  if (encoding === 'confluent' && registry === undefined) note('registry', 'the encoding confluent needs a schema registry: give its URL')
  if (registry !== undefined && URL.canParse(registry)) {
    const { protocol, username, password } = new URL(registry)
    if (protocol !== 'http:' && protocol !== 'https:') note('registry', 'it is asked over HTTP: give a URL such as http://schemas:8081')
    // It stands in log lines and errors.
    if (username !== '' || password !== '') {
      note('registry', 'it holds a user or a password: give them as SVC_LOG_REGISTRY_USERNAME and SVC_LOG_REGISTRY_PASSWORD')
    }
  }
  if ((registryUsername === undefined) !== (registryPassword === undefined)) {
    note('registry_username', 'a user needs a password, and a password its user: give both or none')
  }
}
