// The options section `mqtt`: listen address, TLS, and limits of connections.

import { type Static, Type } from 'typebox'
import { noteFault, type OptionFault } from '../../config/options/options.ts'
import { openTrustedProxies } from '../../http/requests/client-address.ts'
import { mediaTypes } from '../ingest/content-type.ts'

const mebibyte = 1024 * 1024

const count = ([minimum, maximum]: readonly [number, number], byDefault: number, description: string) =>
  Type.Integer({ default: byDefault, minimum, maximum, description })

/** @param enabled by default in this role */
export const mqttOptions = (enabled: boolean) =>
  Type.Object({
    enabled: Type.Boolean({ default: enabled, description: 'Whether devices can publish and subscribe over MQTT.' }),
    host: Type.String({
      default: '127.0.0.1',
      minLength: 1,
      allowed: 'an address such as 127.0.0.1, 0.0.0.0 or ::',
      description: 'Address to listen on for MQTT. The default is reachable from this machine only.',
    }),
    port: Type.Integer({ default: 1883, minimum: 0, maximum: 65535, description: 'Port to listen on for MQTT; 0 picks a free one.' }),
    certFile: Type.Optional(Type.String({ minLength: 1, description: 'Certificate chain, as PEM: enables TLS. Read at start-up.' })),
    keyFile: Type.Optional(Type.String({ minLength: 1, description: 'Private key of that certificate, as PEM.' })),
    clientCertificates: Type.Boolean({
      default: false,
      description:
        'Whether devices may authenticate with a certificate of their thing instead of its key, over TLS on this port. Over WebSocket `ingest.client_certificates` counts.',
    }),
    contentType: Type.Optional(
      Type.Enum([...mediaTypes], {
        description: 'Content type of messages that carry none, as all of MQTT 3.1.1. By default SenML or JSON by the root of the payload.',
      }),
    ),
    connectionsMax: count([1, 1_000_000], 10_000, 'Connections at once; further ones are closed.'),
    thingConnectionsMax: count([1, 1_000_000], 100, 'Of these with the key of one thing; further ones are refused.'),
    ownerConnectionsMax: count(
      [1, 1_000_000],
      1_000,
      'Of these with keys of all things of one user who registered themselves; further ones are refused.',
    ),
    connectTimeoutMs: count([100, 600_000], 10_000, 'Milliseconds within which a client must have sent its CONNECT and be accepted.'),
    subscriptionsMax: count([0, 10_000], 100, 'Subscriptions of one connection; further ones are refused. 0 turns subscribing off.'),
    sessionExpirySecondsMax: count(
      [0, 31_536_000],
      604_800,
      'Seconds that a session outlives its connection at most; what clients of MQTT 3.1.1 get. 0 turns such sessions off.',
    ),
    thingSessionsMax: count([1, 10_000], 100, 'Sessions of one thing that outlive their connections; further ones are refused.'),
    retainedMax: count([1, 10_000], 1_000, 'Topics of one channel that may have a retained message; messages of further ones are refused.'),
    inFlightMax: count(
      [1, 65_535],
      64,
      'Messages of one connection that may wait for the log at once, the Receive Maximum; and those that may wait for the acknowledgement of the client.',
    ),
    inFlightBytesMax: count(
      [mebibyte, 1024 * mebibyte],
      16 * mebibyte,
      'Bytes of the messages of all connections that may wait for the log at once; with more, clients wait.',
    ),
    brokers: Type.Array(Type.String({ minLength: 1, allowed: 'an address or a network such as 10.0.0.7 or 10.0.0.0/8' }), {
      default: [],
      examples: [['10.0.0.7']],
      description:
        'Other MQTT brokers, EMQX or Mosquitto, that may ask over HTTP which devices to admit. They say whose connection it is, and are believed.',
    }),
  })

export type MqttOptions = Static<ReturnType<typeof mqttOptions>>

/** Faults that the schema cannot express. */
export function mqttFaults({ certFile, keyFile, clientCertificates, brokers }: MqttOptions): OptionFault[] {
  const faults: OptionFault[] = []
  if ((certFile === undefined) !== (keyFile === undefined)) {
    faults.push({ place: 'mqtt.cert_file', problem: 'mqtt.cert_file and mqtt.key_file belong together: set both or neither' })
  } else if (clientCertificates && certFile === undefined) {
    faults.push({ place: 'mqtt.client_certificates', problem: 'this needs TLS: also set mqtt.cert_file and mqtt.key_file' })
  }
  noteFault(faults, 'mqtt.brokers', () => void openTrustedProxies(brokers))
  return faults
}
