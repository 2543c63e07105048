// What kafkajs throws, as a consumer takes it (consumer/broker.ts).

import { BrokerError } from '../consumer/broker.ts'
import { code } from '../failure.ts'

interface KafkaJsError extends Error {
  /** Kafka's name of the error, where a broker sent one; `code` is its number then. */
  readonly type?: string
  readonly code?: unknown
}

/** Of its own errors, those that stand for what a broker said. */
const codes: ReadonlyMap<string, number> = new Map([
  ['KafkaJSSASLAuthenticationError', code.saslAuthenticationFailed],
  ['KafkaJSServerDoesNotSupportApiKey', code.unsupportedVersion],
])

export function brokerFailure(error: unknown): unknown {
  if (!(error instanceof Error)) return error
  const { type, code: number, name, message } = error as KafkaJsError
  const apiCode = type !== undefined && typeof number === 'number' ? number : codes.get(name)
  return apiCode === undefined ? error : new BrokerError(apiCode, message, { cause: error })
}
