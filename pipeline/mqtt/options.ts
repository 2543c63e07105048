// The options section `mqtt`: listen address, TLS, and limits of connections.

import { type Static, Type } from 'typebox'
import { noteFault, type OptionFault } from '../../config/options/options.ts'
import { openTrustedProxies } from '../../http/requests/client-address.ts'
import { mediaTypes } from '../ingest/content-type.ts'

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
    connectionsMax: Type.Integer({
      default: 10_000,
      minimum: 1,
      maximum: 1_000_000,
      description: 'Connections at once; further ones are closed.',
    }),
    thingConnectionsMax: Type.Integer({
      default: 100,
      minimum: 1,
      maximum: 1_000_000,
      description: 'Of these with the key of one thing; further ones are refused.',
    }),
    ownerConnectionsMax: Type.Integer({
      default: 1_000,
      minimum: 1,
      maximum: 1_000_000,
      description: 'Of these with keys of all things of one user who registered themselves; further ones are refused.',
    }),
    connectTimeoutMs: Type.Integer({
      default: 10_000,
      minimum: 100,
      maximum: 600_000,
      description: 'Milliseconds within which a client must have sent its CONNECT and be accepted.',
    }),
    subscriptionsMax: Type.Integer({
      default: 100,
      minimum: 0,
      maximum: 10_000,
      description: 'Subscriptions of one connection; further ones are refused. 0 turns subscribing off.',
    }),
    sessionExpirySecondsMax: Type.Integer({
      default: 604_800,
      minimum: 0,
      maximum: 31_536_000,
      description: 'Seconds that a session outlives its connection at most; what clients of MQTT 3.1.1 get. 0 turns such sessions off.',
    }),
    thingSessionsMax: Type.Integer({
      default: 100,
      minimum: 1,
      maximum: 10_000,
      description: 'Sessions of one thing that outlive their connections; further ones are refused.',
    }),
    retainedMax: Type.Integer({
      default: 1_000,
      minimum: 1,
      maximum: 10_000,
      description: 'Topics of one channel that may have a retained message; messages of further ones are refused.',
    }),
    inFlightMax: Type.Integer({
      default: 64,
      minimum: 1,
      maximum: 65_535,
      description:
        'Messages of one connection that may wait for the log at once, the Receive Maximum; and those that may wait for the acknowledgement of the client.',
    }),
    inFlightBytesMax: Type.Integer({
      default: 16 * 1024 * 1024,
      minimum: 1024 * 1024,
      maximum: 1024 * 1024 * 1024,
      description: 'Bytes of the messages of all connections that may wait for the log at once; with more, clients wait.',
    }),
    brokers: Type.Array(Type.String({ minLength: 1, allowed: 'an address or a network such as 10.0.0.7 or 10.0.0.0/8' }), {
      default: [],
      examples: [['10.0.0.7']],
      description:
        'Other MQTT brokers, EMQX or Mosquitto, that may ask over HTTP which devices to admit. They say whose connection it is, and are believed.',
    }),
  })

export type MqttOptions = Static<ReturnType<typeof mqttOptions>>

/** Faults that the schema cannot express. */
export function mqttFaults({
  certFile,
  keyFile,
  clientCertificates,
  brokers,
}: Pick<MqttOptions, 'certFile' | 'keyFile' | 'clientCertificates' | 'brokers'>): OptionFault[] {
  const faults: OptionFault[] = []
  if ((certFile === undefined) !== (keyFile === undefined)) {
    faults.push({ place: 'mqtt.cert_file', problem: 'mqtt.cert_file and mqtt.key_file belong together: set both or neither' })
  } else if (clientCertificates && certFile === undefined) {
    faults.push({ place: 'mqtt.client_certificates', problem: 'this needs TLS: also set mqtt.cert_file and mqtt.key_file' })
  }
  noteFault(faults, 'mqtt.brokers', () => void openTrustedProxies(brokers))
  return faults
}
