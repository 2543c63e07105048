// Why a connection ends: reason codes of MQTT 5 (§2.4) and return codes of MQTT 3.1.1 (§3.2.2.3), and which refusal of a publish gets which.

import { AccessUnavailableError } from '../../control-plane/client.ts'
import type { ErrorCode, HttpError } from '../../http/errors.ts'
import { LiveUnavailableError } from '../live/messages.ts'
import { LogUnavailableError } from '../log.ts'
import { SessionsUnavailableError } from './sessions/store.ts'

export const reasons = {
  success: 0x00,
  noSubscriptionExisted: 0x11,
  unspecified: 0x80,
  malformedPacket: 0x81,
  protocolError: 0x82,
  implementationSpecific: 0x83,
  unsupportedVersion: 0x84,
  clientIdNotValid: 0x85,
  badUserNameOrPassword: 0x86,
  notAuthorized: 0x87,
  serverUnavailable: 0x88,
  serverBusy: 0x89,
  serverShuttingDown: 0x8b,
  badAuthenticationMethod: 0x8c,
  keepAliveTimeout: 0x8d,
  sessionTakenOver: 0x8e,
  topicFilterInvalid: 0x8f,
  topicNameInvalid: 0x90,
  packetIdNotFound: 0x92,
  receiveMaximumExceeded: 0x93,
  topicAliasInvalid: 0x94,
  packetTooLarge: 0x95,
  quotaExceeded: 0x97,
  payloadFormatInvalid: 0x99,
  sharedNotSupported: 0x9e,
  connectionRateExceeded: 0x9f,
} as const

/** By reason code, the return code of the CONNACK of MQTT 3.1.1, and as what a refused CONNECT is counted. */
const refusals = {
  [reasons.unsupportedVersion]: [1, 'malformed_request'],
  [reasons.clientIdNotValid]: [2, 'malformed_request'],
  [reasons.badUserNameOrPassword]: [4, 'unauthenticated'],
  [reasons.notAuthorized]: [5, 'unauthenticated'],
  [reasons.serverUnavailable]: [3, 'unavailable'],
  [reasons.badAuthenticationMethod]: [5, 'unauthenticated'],
  [reasons.topicNameInvalid]: [5, 'malformed_request'],
  [reasons.quotaExceeded]: [3, 'too_many_requests'],
  [reasons.connectionRateExceeded]: [5, 'too_many_requests'],
} as const satisfies Record<number, readonly [number, ErrorCode]>

/** Why a CONNECT is refused. */
export interface Refusal {
  readonly reasonCode: number
  readonly returnCode: number
  readonly code: ErrorCode
  readonly sentence: string
}

export function refusalOf(reasonCode: keyof typeof refusals, sentence: string): Refusal {
  const [returnCode, code] = refusals[reasonCode]
  return { reasonCode, returnCode, code, sentence }
}

/** An error with the reason code that a client of MQTT 5 gets. */
export class ReasonError extends Error {
  readonly reasonCode: number

  constructor(reasonCode: number, message: string) {
    super(message)
    this.reasonCode = reasonCode
  }
}

/** The client broke the protocol: the connection ends, with a DISCONNECT (MQTT 5 §4.13). */
export class PacketError extends ReasonError {
  override readonly name = 'PacketError'
}

/** Whether what is needed cannot be reached now: the client may retry. */
export function isUnavailable(error: unknown): error is Error {
  return [AccessUnavailableError, LiveUnavailableError, LogUnavailableError, SessionsUnavailableError].some(kind => error instanceof kind)
}

const reasonByCode: Partial<Record<ErrorCode, number>> = {
  unauthenticated: reasons.notAuthorized,
  forbidden: reasons.notAuthorized,
  malformed_request: reasons.payloadFormatInvalid,
  undecodable: reasons.payloadFormatInvalid,
  unsupported_media_type: reasons.payloadFormatInvalid,
  too_large: reasons.quotaExceeded,
  too_many_requests: reasons.quotaExceeded,
}

/** The reason code of the PUBACK for a refused message. */
export function reasonOf({ code, faults }: Pick<HttpError, 'code' | 'faults'>): number {
  if (code === 'malformed_request' && faults.some(({ pointer }) => pointer.startsWith('/path/'))) return reasons.topicNameInvalid
  return reasonByCode[code] ?? reasons.unspecified
}
