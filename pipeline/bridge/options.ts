// The options section `broker`: the MQTT broker that a bridge reads, and where in its messages the parts of the envelope are.

import { type Static, Type } from 'typebox'
import type { OptionFault } from '../../config/options/options.ts'
import { isMqttSource, mqttSourceWords } from '../envelope/layout.ts'

const source = Type.Refine(Type.String({ allowed: mqttSourceWords }), isMqttSource)

function sources(part: string, without: string, example: readonly string[]) {
  return Type.Optional(
    Type.Array(source, {
      minItems: 1,
      maxItems: 8,
      examples: [example],
      description: `Where ${part} comes from: the first that the message has. ${without}`,
    }),
  )
}

/** Like the section `envelope` of writers; a user property of MQTT 5 is a header. */
const envelope = Type.Object({
  channel: Type.Array(source, {
    default: ['topic'],
    minItems: 1,
    maxItems: 8,
    description: 'Where the channel comes from: the first that the message has. A message with none is a dead letter.',
  }),
  publisher: sources('the publisher', 'Default: `header:publisher`; without one it is empty.', ['topic:3']),
  subtopic: sources('the subtopic', 'Default: `header:subtopic`; without one it is empty.', ['topic:4-', 'const:readings']),
  contentType: sources('the content type', 'Default: that of the PUBLISH; without one the writer decides.', ['const:application/json']),
  created: sources('the time of a message', 'RFC 3339, or digits since 1970. By default it is when the bridge received it.', ['field:ts']),
})

const filter = /^(?!\$share\/)(?:[^+#\0/]*|\+)(?:\/(?:[^+#\0/]*|\+))*(?:(?<=^|\/)#)?$/
const schemes: readonly string[] = ['mqtt:', 'mqtts:', 'ws:', 'wss:']

export const brokerOptions = Type.Object({
  url: Type.String({
    format: 'url',
    allowed: 'a URL such as mqtt://broker:1883, mqtts://…, ws://… or wss://…',
    description: 'The broker.',
  }),
  topics: Type.Array(
    Type.String({ pattern: filter.source, minLength: 1, maxLength: 1024, allowed: 'topic filters of MQTT, without $share' }),
    {
      minItems: 1,
      maxItems: 64,
      examples: [['factory/+/readings', 'plant/#']],
      description: 'Topic filters of the messages to take, with the wildcards `+` and `#`.',
    },
  ),
  version: Type.Enum(['5', '3.1.1'], {
    default: '5',
    description: 'Version of MQTT. With 3.1.1 one bridge reads a broker: `broker.share` does not apply.',
  }),
  share: Type.String({
    default: '',
    pattern: '^[^/+#\\s]{0,100}$',
    allowed: 'a name without / + #, or an empty text',
    description: 'Bridges with the same name share the messages (`$share/<name>/…`). By default each gets all of them, so there is one.',
  }),
  clientId: Type.String({
    default: 'sluice-bridge',
    pattern: '^[a-zA-Z0-9._:-]{1,100}$',
    allowed: '1 to 100 of the characters a-z A-Z 0-9 . _ : -',
    description: 'Name of the session at the broker, which keeps what was not acknowledged. Each bridge needs its own, and keeps it.',
  }),
  sessionExpirySeconds: Type.Integer({
    default: 604_800,
    minimum: 60,
    maximum: 4_294_967_295,
    description: 'Seconds that the broker keeps the session while the bridge is away; with MQTT 3.1.1 the broker decides.',
  }),
  username: Type.Optional(Type.String({ minLength: 1, description: 'User, if the broker requires one.' })),
  password: Type.Optional(Type.String({ minLength: 1, secret: true, description: "That user's password." })),
  caFile: Type.Optional(Type.String({ minLength: 1, description: "CA of the broker's certificate, as PEM, instead of the system's." })),
  certFile: Type.Optional(Type.String({ minLength: 1, description: 'Client certificate (mutual TLS), as PEM.' })),
  keyFile: Type.Optional(Type.String({ minLength: 1, description: 'Private key of that certificate, as PEM.' })),
  inFlightMax: Type.Integer({
    default: 1_000,
    minimum: 1,
    maximum: 65_535,
    description: 'Messages that may wait for the log at once, the Receive Maximum. Their bytes are bounded by `log.queue_bytes`.',
  }),
  envelope,
})
export type BrokerOptions = Static<typeof brokerOptions>

/** Faults that the schema cannot express. */
export function brokerFaults({ url, username, password, caFile, certFile, keyFile }: BrokerOptions): OptionFault[] {
  const faults: OptionFault[] = []
  const note = (key: string, problem: string): void => void faults.push({ place: `broker.${key}`, problem })
  const { protocol, username: user, password: secret } = new URL(url)
  if (!schemes.includes(protocol)) note('url', 'it must begin with mqtt://, mqtts://, ws:// or wss://')
  // The URL is shown in log lines.
  if (user !== '' || secret !== '') note('url', 'it contains a user or a password: set broker.username and SVC_BROKER_PASSWORD')
  if (password !== undefined && username === undefined) note('username', 'a password needs a user: set both')
  if ((certFile === undefined) !== (keyFile === undefined)) {
    note('cert_file', 'broker.cert_file and broker.key_file belong together: set both or neither')
  }
  const isPlain = protocol === 'mqtt:' || protocol === 'ws:'
  if (isPlain && [caFile, certFile].some(file => file !== undefined)) {
    note('url', 'certificates require TLS: begin it with mqtts:// or wss://, or unset broker.ca_file, broker.cert_file and broker.key_file')
  }
  return faults
}
