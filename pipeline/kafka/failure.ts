// Classifies errors of the Kafka client: the brokers are temporarily away, or the error is permanent.

import { type metadataV12, ProtocolError, protocolErrorsCodesById } from '@platformatic/kafka'
import { named } from '../../config/options/variable.ts'
import { SystemicError } from '../systemic-error.ts'

/** The error codes of the Kafka protocol guide ("Error Codes") that are handled separately. */
export const code = {
  none: 0,
  offsetOutOfRange: 1,
  corruptMessage: 2,
  unknownTopic: 3,
  leaderNotAvailable: 5,
  notLeader: 6,
  timedOut: 7,
  replicaNotAvailable: 9,
  messageTooLarge: 10,
  coordinatorLoading: 14,
  coordinatorNotAvailable: 15,
  notCoordinator: 16,
  invalidTopic: 17,
  recordListTooLarge: 18,
  illegalGeneration: 22,
  inconsistentGroupProtocol: 23,
  invalidGroup: 24,
  unknownMember: 25,
  invalidSession: 26,
  rebalancing: 27,
  topicAuthorization: 29,
  groupAuthorization: 30,
  clusterAuthorization: 31,
  invalidTimestamp: 32,
  unsupportedSaslMechanism: 33,
  unsupportedVersion: 35,
  topicExists: 36,
  invalidPartitions: 37,
  invalidReplicationFactor: 38,
  invalidConfig: 40,
  policyViolation: 44,
  outOfOrderSequence: 45,
  duplicateSequence: 46,
  invalidProducerEpoch: 47,
  saslAuthenticationFailed: 58,
  unknownProducer: 59,
  memberIdRequired: 79,
  groupFull: 81,
  fencedInstance: 82,
  invalidRecord: 87,
  producerFenced: 90,
  unknownTopicId: 100,
  inconsistentTopicId: 103,
} as const

/** Answers of a broker that does not accept one of the batch's messages, for another reason than its size. */
export const messageRefused: ReadonlySet<number> = new Set([code.corruptMessage, code.policyViolation, code.invalidRecord])

/** Answers of a broker that has lost the state of a producer, fully or in part: it does not have the batch. */
export const producerLost: ReadonlySet<number> = new Set([
  code.outOfOrderSequence,
  code.unknownProducer,
  code.invalidProducerEpoch,
  code.producerFenced,
])

/** The error, its causes, and the parts of aggregate errors. */
function* chain(error: unknown, depth = 0): Generator<Error> {
  if (!(error instanceof Error) || depth > 8) return
  yield error
  yield* chain(error.cause, depth + 1)
  if (error instanceof AggregateError) for (const part of error.errors) yield* chain(part, depth + 1)
}

/** The error for a broker's error code, which may be newer than the client's table. */
export function brokerError(errorCode: number): Error {
  return errorCode in protocolErrorsCodesById ? new ProtocolError(errorCode) : new Error(`broker error ${errorCode}`)
}

/**
 * The metadata inside an error: the client throws for any error in an answer, for example a partition without a leader.
 *
 * @throws the error if it contains no answer
 */
export function metadataIn(error: unknown): metadataV12.MetadataResponse {
  const { response } = error as { response?: metadataV12.MetadataResponse }
  if (response === undefined) throw error
  return response
}

/** The brokers' error codes in an error. */
export function brokerCodes(error: unknown): number[] {
  const codes: number[] = []
  for (const { apiCode } of chain(error) as Iterable<{ apiCode?: unknown }>) if (typeof apiCode === 'number') codes.push(apiCode)
  return codes
}

/** The innermost message: `connect ECONNREFUSED 127.0.0.1:9092` says more than that a request failed. */
export function reasonOf(error: unknown): string {
  let reason = String(error)
  for (const { message } of chain(error)) if (message !== '') reason = message
  return reason
}

const certificateFault = /CERT|SELF_SIGNED|UNABLE_TO_(GET|VERIFY)|ALTNAME|ERR_SSL|ERR_TLS/

/**
 * The SystemicError for an error that an operator must fix; undefined for a temporary one.
 *
 * @param what the consequence: `the topic messages cannot be opened`
 */
export function systemicFault(error: unknown, what: string): SystemicError | undefined {
  for (const one of chain(error)) if (one instanceof SystemicError) return one
  const remedy = remedyOf(error)
  return remedy === undefined ? undefined : new SystemicError(`${what} (${reasonOf(error)}): ${remedy}`, { cause: error })
}

function remedyOf(error: unknown): string | undefined {
  const codes = new Set(brokerCodes(error))
  const has = (...some: readonly number[]): boolean => some.some(one => codes.has(one))
  if (has(code.unsupportedSaslMechanism)) return `set ${named('log.sasl_mechanism')} to one that the brokers support`
  if (has(code.saslAuthenticationFailed)) return `correct ${named('log.sasl_username')} and ${named('log.sasl_password')}`
  if (has(code.topicAuthorization, code.clusterAuthorization, code.groupAuthorization)) {
    return `this user is not authorized: grant it the rights, or set another user in ${named('log.sasl_username')}`
  }
  if (has(code.invalidTopic)) return `correct ${named('log.topic')} and ${named('log.group')}, from which the names of topics are built`
  if (has(code.invalidReplicationFactor)) return `set ${named('log.replication_factor')} to at most the number of brokers`
  if (has(code.invalidPartitions, code.invalidConfig, code.policyViolation))
    return 'create the topic manually with settings that the cluster allows'
  if (has(code.invalidGroup)) return `correct ${named('log.group')}`
  if (has(code.invalidSession))
    return `set ${named('consumer.session_ms')} between group.min.session.timeout.ms and group.max.session.timeout.ms of the brokers`
  if (has(code.inconsistentGroupProtocol)) return `stop other applications in the consumer group, or choose another ${named('log.group')}`
  if (has(code.fencedInstance)) return `another process of the group uses this name: give each its own ${named('log.instance')}`
  if (has(code.groupFull)) return `lower ${named('workers.count')}, or raise group.max.size of the brokers`
  if (has(code.unsupportedVersion)) return 'use Kafka 3.1 or newer'
  for (const one of chain(error)) {
    if (one.message.includes('requires TLS')) return `set ${named('log.tls')} to true`
    const { code: text } = one as { code?: unknown }
    if (typeof text === 'string' && certificateFault.test(text))
      return `correct ${named('log.tls')}, ${named('log.ca_file')} and ${named('log.cert_file')}`
    if (text === 'PLT_KFK_AUTHENTICATION' && !isDisconnected(one.cause))
      return `correct ${named('log.sasl_mechanism')}, ${named('log.sasl_username')} and ${named('log.sasl_password')}`
  }
  return undefined
}

/** A connection that breaks during authentication does not count as rejected credentials. */
function isDisconnected(cause: unknown): boolean {
  for (const { code: text } of chain(cause) as Iterable<{ code?: unknown }>) if (text === 'PLT_KFK_NETWORK') return true
  return false
}
