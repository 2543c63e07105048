// What a CONNECT asks for: whose connection it is, or why it is refused (MQTT 5 §3.1, MQTT 3.1.1 §3.1).

import { randomUUID } from 'node:crypto'
import type { IConnectPacket } from 'mqtt-packet'
import type { Logger } from '../../config/logger.ts'
import { type Access, type AccessControl, AccessUnavailableError, type Credential, noChannel } from '../../control-plane/client.ts'
import { topicFault } from '../ingest/mqtt-topic.ts'
import type { Peer } from './link.ts'
import type { Version } from './packets.ts'
import { PacketError, type Refusal, reasons, refusalOf } from './reasons.ts'

/** An accepted connection. */
export interface Session {
  readonly version: Version
  readonly credential: Credential
  /** The thing's id in lower case, as the client says; empty if it says none. */
  readonly userName: string
  readonly clientId: string
  /** Whether the client did not say its id, and gets it in the CONNACK (MQTT 5 §3.2.2.3.7). */
  readonly isClientIdAssigned: boolean
  readonly address: string
  /** Seconds; 0 for none. */
  readonly keepAliveSeconds: number
  readonly will: IConnectPacket['will'] | undefined
  /** Messages with QoS 1 that the client may have unacknowledged (MQTT 5 §3.1.2.11.3). */
  readonly receiveMax: number
  /** The largest packet that the client takes. */
  readonly packetBytesMax: number
  /** Whether the client begins without what was kept. */
  readonly isClean: boolean
  /** How long the session outlives the connection, as the client asked for and is granted. A DISCONNECT may change it (MQTT 5 §3.14.2.2.2). */
  readonly askedExpirySeconds: number
  expirySeconds: number
  /** The thing of the key or certificate. */
  thing: string
  /** The owner of the thing, if they registered themselves and have bounds. */
  boundedOwner: string | undefined
  /** When the key ends because another has replaced it, or the certificate: milliseconds since 1970. */
  endsMs: number | undefined
}

const clientIdBytesMax = 256
/** As in the header Authorization. */
const keyPattern = /^[^\s,]+$/

const unknownKey = refusalOf(
  reasons.badUserNameOrPassword,
  'unknown thing key: send as password the key returned when the thing was created, and as user name the id of the thing or nothing',
)

const unknownCertificate = refusalOf(
  reasons.notAuthorized,
  'this certificate is revoked, has expired, was not issued by this platform, or is of another thing than the user name: get another one with POST /certs',
)

/**
 * The same for every wrong key or certificate, and every user name with it, so that it does not tell what exists. A password takes precedence over a
 * certificate.
 *
 * @throws PacketError
 */
export async function authenticate(
  connect: IConnectPacket & { readonly protocolVersion: Version },
  { address, certificate }: Peer,
  expirySecondsMax: number,
  access: AccessControl,
  logger: Pick<Logger, 'error'>,
): Promise<Session | Refusal> {
  const { protocolVersion: version, clientId, clean = false, keepalive = 0, username = '', password, will, properties = {} } = connect
  if (properties.authenticationMethod !== undefined) {
    return refusalOf(reasons.badAuthenticationMethod, 'enhanced authentication is not supported: send the key of a thing as password')
  }
  if ((clientId === '' && version === 4 && !clean) || Buffer.byteLength(clientId) > clientIdBytesMax) {
    const what = clientId === '' ? 'empty, which needs a clean session' : `longer than ${clientIdBytesMax} bytes`
    return refusalOf(reasons.clientIdNotValid, `the client id is ${what}: choose another one`)
  }
  const fault = will === undefined ? undefined : topicFault(will.topic)
  if (fault !== undefined) return refusalOf(reasons.topicNameInvalid, `of the will ${fault}`)
  if (properties.receiveMaximum === 0 || properties.maximumPacketSize === 0) {
    throw new PacketError(reasons.protocolError, 'the Receive Maximum or the Maximum Packet Size is 0')
  }
  const secret = password?.toString() ?? ''
  const credential: Credential = secret === '' && certificate !== undefined ? certificate : { scheme: 'Thing', secret }
  if (credential.scheme === 'Thing' && !keyPattern.test(secret)) return unknownKey
  // MQTT 3.1.1 has no expiry: a session that is not clean stays.
  const askedExpirySeconds = version === 5 ? (properties.sessionExpiryInterval ?? 0) : clean ? 0 : expirySecondsMax
  const session: Session = {
    version,
    credential,
    userName: username.toLowerCase(),
    clientId: clientId === '' ? randomUUID() : clientId,
    isClientIdAssigned: clientId === '',
    address,
    keepAliveSeconds: keepalive,
    // The payload is a part of a larger buffer.
    will: will && { ...will, payload: Buffer.from(will.payload) },
    receiveMax: properties.receiveMaximum ?? 65_535,
    packetBytesMax: properties.maximumPacketSize ?? Infinity,
    isClean: clean,
    askedExpirySeconds,
    expirySeconds: Math.min(askedExpirySeconds, expirySecondsMax),
    thing: '',
    boundedOwner: undefined,
    endsMs: undefined,
  }
  return (await whyRefused(session, access, logger)) ?? session
}

/** @returns undefined if the key or certificate is that of a thing, whichever channels it is connected to */
export async function whyRefused(session: Session, access: AccessControl, logger: Pick<Logger, 'error'>): Promise<Refusal | undefined> {
  const { credential, address, userName } = session
  const [unknown, what] =
    credential.scheme === 'Certificate' ? [unknownCertificate, 'invalid certificate'] : [unknownKey, 'unknown thing key']
  try {
    const answer = await access.authorize({ credential, channel: noChannel, action: 'publish', address })
    if (!answer.allowed && answer.reason === 'limited') {
      const sentence = `too many attempts with this ${what} from this address: retry after ${Math.ceil(answer.leftMs / 1000)} s`
      return refusalOf(reasons.connectionRateExceeded, sentence)
    }
    if (!answer.allowed && answer.reason === 'unauthenticated') return unknown
    const { publisher, owner, isBounded, endsMs } = answer as Access & { readonly reason?: 'forbidden' }
    if (publisher === undefined || publisher === null || (userName !== '' && userName !== publisher)) return unknown
    session.thing = publisher
    session.boundedOwner = isBounded === true ? owner : undefined
    session.endsMs = endsMs
    return undefined
  } catch (error) {
    if (!(error instanceof AccessUnavailableError)) logger.error({ err: error }, 'cannot check the key of a connection')
    return refusalOf(reasons.serverUnavailable, 'the key cannot be checked now: retry')
  }
}

/** What a client of MQTT 5 may send: topic aliases are remembered for one connection. */
export const topicAliasMax = 16
