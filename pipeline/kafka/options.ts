// The options section `log` of roles that use Kafka: connection, topic and queue limits.

import { type Static, Type } from 'typebox'
import type { OptionFault } from '../../config/options/options.ts'
import { knownSecretFaults } from '../../config/production.ts'
import { logsMax, partitionsMax } from '../../transformers/log-partition.ts'
import { logOptions } from '../options.ts'
import { defaultTopic, patternFault, type TopicOptions } from './topic-patterns.ts'

/** How to create a missing topic. */
const topicProperties = {
  partitions: Type.Integer({
    default: 12,
    minimum: 1,
    maximum: partitionsMax,
    description: 'Partitions of a topic that is created.',
  }),
  replicationFactor: Type.Integer({
    default: 0,
    minimum: 0,
    maximum: 100,
    description: "Replication factor of a topic that is created; 0 is the broker's default.",
  }),
}

/** The connection to brokers. */
const connectionProperties = {
  brokers: Type.Array(Type.String({ pattern: '^([^\\s:,/@\\[\\]]+|\\[[0-9a-fA-F:.]+\\]):\\d{1,5}$', allowed: 'host:port' }), {
    default: ['127.0.0.1:9092'],
    minItems: 1,
    description: 'Kafka brokers to connect to first.',
  }),
  clientId: Type.String({
    default: 'sluice',
    pattern: '^[a-zA-Z0-9._-]{1,100}$',
    description: 'Client id in logs and quotas of brokers.',
  }),
  tls: Type.Boolean({ default: false, description: "Encrypt connections, and verify the brokers' certificates." }),
  caFile: Type.Optional(Type.String({ minLength: 1, description: "CA of the brokers' certificates, as PEM, instead of the system's." })),
  certFile: Type.Optional(Type.String({ minLength: 1, description: 'Client certificate (mutual TLS), as PEM.' })),
  keyFile: Type.Optional(Type.String({ minLength: 1, description: 'Private key of that certificate, as PEM.' })),
  saslMechanism: Type.Enum(['none', 'plain', 'scram-sha-256', 'scram-sha-512'], {
    default: 'none',
    description: 'Authentication mechanism. `plain` sends the password in clear text: use TLS.',
  }),
  saslUsername: Type.Optional(Type.String({ minLength: 1, description: 'User for SASL.' })),
  saslPassword: Type.Optional(Type.String({ minLength: 1, secret: true, description: "That user's password." })),
  connectTimeoutMs: Type.Integer({
    default: 3_000,
    minimum: 100,
    maximum: 120_000,
    description: 'Milliseconds after which the next broker is tried.',
  }),
  requestTimeoutMs: Type.Integer({
    default: 5_000,
    minimum: 500,
    maximum: 300_000,
    description: 'Milliseconds after which a request fails and its connection is closed.',
  }),
}

/** For a role that appends: `ingest`, and the dead letters of a writer. */
const appendProperties = {
  queueBytes: logOptions.properties.queueBytes,
  appendTimeoutMs: Type.Integer({
    default: 10_000,
    minimum: 1_000,
    maximum: 600_000,
    description: 'Milliseconds after which an unacknowledged message is rejected; publishers get 503.',
  }),
}

const topicName = {
  pattern: '^(?!\\.{1,2}$)[a-zA-Z0-9._-]{1,150}$',
  allowed: '1 to 150 of the characters a-z A-Z 0-9 . _ -',
}

export const kafkaLogOptions = Type.Object({
  ...connectionProperties,
  topic: Type.String({ ...topicName, default: defaultTopic, description: 'Topic of the messages.' }),
  ...topicProperties,
  encoding: Type.Enum(['raw', 'confluent'], {
    default: 'raw',
    description: 'Encoding in the topic: `raw` has the envelope in headers, `confluent` is an Avro envelope.',
  }),
  registry: Type.Optional(
    Type.String({
      format: 'url',
      allowed: 'a URL such as http://schemas:8081',
      description: 'Schema registry for the encoding `confluent`.',
    }),
  ),
  registryUsername: Type.Optional(Type.String({ minLength: 1, description: 'Its user, if it requires one.' })),
  registryPassword: Type.Optional(Type.String({ minLength: 1, secret: true, description: "That user's password." })),
  registryTimeoutMs: Type.Integer({
    default: 5_000,
    minimum: 100,
    maximum: 300_000,
    description: 'Milliseconds after which a request to it is retried.',
  }),
  ...appendProperties,
})
export type KafkaLogOptions = Static<typeof kafkaLogOptions>

/** The topics of a role that reads. */
export const topicsProperties = {
  topic: Type.Optional(
    Type.String({ ...topicName, description: `Topic of the messages; default: \`${defaultTopic}\`, unless \`log.topics\` is set.` }),
  ),
  topics: Type.Optional(
    Type.Array(
      Type.String({
        pattern: '^(\\^.{1,300}|(?!\\.{1,2}$)[a-zA-Z0-9._-]{1,150})$',
        allowed: 'names of topics, or regular expressions that begin with ^',
      }),
      {
        minItems: 1,
        maxItems: logsMax,
        examples: [['hall', '^plant\\.']],
        description: `Topics instead of \`log.topic\`, at most ${logsMax}. A regular expression also selects topics that are created later.`,
      },
    ),
  ),
}

/** For a role that reads: a writer. */
export const kafkaSourceOptions = Type.Object({
  ...kafkaLogOptions.properties,
  ...topicsProperties,
  topicsRefreshMs: Type.Integer({
    default: 60_000,
    minimum: 100,
    maximum: 3_600_000,
    description: 'Milliseconds between looks for new topics that match.',
  }),
  numbers: Type.Optional(
    Type.Array(Type.Integer({ minimum: 1, maximum: logsMax }), {
      minItems: 1,
      maxItems: logsMax,
      examples: [[1, 2]],
      description: 'Number of each topic in an InfluxDB store, in their order; for one topic 1 by default. Other stores choose.',
    }),
  ),
  create: Type.Boolean({
    default: false,
    description: 'Whether missing topics of messages are created; those of dead letters always are.',
  }),
  // Part of the dead-letter topic's name, which may have at most 249 characters.
  group: Type.Optional(
    Type.String({
      pattern: '^[a-zA-Z0-9._-]{1,80}$',
      allowed: '1 to 80 of the characters a-z A-Z 0-9 . _ -',
      description:
        "Consumer group and name of the writer; default: the group `<store>.<topic>`, and the store's name. Required with several topics or a pattern.",
    }),
  ),
  instance: Type.Optional(
    Type.String({
      pattern: '^[a-zA-Z0-9._-]{1,100}$',
      allowed: '1 to 100 of the characters a-z A-Z 0-9 . _ -',
      description:
        'Unique name of this process in the consumer group (static membership): a worker that is back within `consumer.session_ms` keeps its partitions.',
    }),
  ),
  skipBatch: Type.Boolean({
    default: false,
    flag: '--skip-batch',
    description: 'Skip batches of Kafka before 0.11, and those that expand beyond 64 MiB; they count as lost.',
  }),
  acceptNew: logOptions.properties.acceptNew,
  acceptLost: logOptions.properties.acceptLost,
})
export type KafkaSourceOptions = Static<typeof kafkaSourceOptions>

/** Of a role that appends, or reads. */
type FaultedOptions = Omit<KafkaLogOptions, 'topic'> & TopicOptions

/** Faults in combinations of valid options. */
export function kafkaFaults(options: FaultedOptions, env: 'development' | 'production' = 'development'): OptionFault[] {
  const { tls, caFile, certFile, keyFile, saslMechanism, saslUsername, saslPassword, brokers } = options
  const faults: OptionFault[] = []
  const note = (key: string, problem: string): void => void faults.push({ place: `log.${key}`, problem })
  for (const broker of brokers) {
    const port = Number(broker.slice(broker.lastIndexOf(':') + 1))
    if (port < 1 || port > 65_535) note('brokers', `${broker} has an invalid port: give host:port with a port from 1 to 65535`)
  }
  if (!tls && [caFile, certFile, keyFile].some(file => file !== undefined)) {
    note('tls', 'certificates require TLS: set it to true, or unset log.ca_file, log.cert_file and log.key_file')
  }
  if ((certFile === undefined) !== (keyFile === undefined)) {
    note('cert_file', 'log.cert_file and log.key_file belong together: set both or neither')
  }
  if (saslMechanism === 'none' && (saslUsername !== undefined || saslPassword !== undefined)) {
    note('sasl_mechanism', 'a user and a password need a mechanism: set plain, scram-sha-256 or scram-sha-512')
  }
  if (saslMechanism !== 'none' && (saslUsername === undefined || saslPassword === undefined)) {
    note('sasl_username', `${saslMechanism} needs a user and a password: set SVC_LOG_SASL_USERNAME and SVC_LOG_SASL_PASSWORD`)
  }
  noteRegistryFaults(options, note)
  const { topic, topics = [] } = options
  if (topic !== undefined && topics.length > 0) note('topics', 'log.topic and log.topics are both set: set one of them')
  for (const wanted of topics) {
    const fault = patternFault(wanted)
    if (fault !== undefined) note('topics', `${fault}: correct it`)
  }
  if (options.appendTimeoutMs < options.requestTimeoutMs) {
    note('append_timeout_ms', `it is shorter than log.request_timeout_ms of ${options.requestTimeoutMs}, so one request would exceed it`)
  }
  return [...faults, ...knownSecretFaults(env, { 'log.sasl_password': saslPassword, 'log.registry_password': options.registryPassword })]
}

function noteRegistryFaults(options: FaultedOptions, note: (key: string, problem: string) => void): void {
  const { encoding, registry, registryUsername, registryPassword } = options
  if (encoding === 'confluent' && registry === undefined) note('registry', 'the encoding confluent needs a schema registry: set its URL')
  if (registry !== undefined && URL.canParse(registry)) {
    const { protocol, username, password } = new URL(registry)
    if (protocol !== 'http:' && protocol !== 'https:') note('registry', 'it must be an HTTP URL such as http://schemas:8081')
    // The URL is shown in log lines and errors.
    if (username !== '' || password !== '') {
      note('registry', 'it contains a user or a password: set them as SVC_LOG_REGISTRY_USERNAME and SVC_LOG_REGISTRY_PASSWORD')
    }
  }
  if ((registryUsername === undefined) !== (registryPassword === undefined)) {
    note('registry_username', 'log.registry_username and log.registry_password belong together: set both or neither')
  }
}
