// Classifies failures of a consumer: the log is temporarily away, or the error is permanent.

import { LogUnavailableError } from '../../log.ts'
import { SystemicError } from '../../systemic-error.ts'
import { code, reasonOf, systemicFault } from '../failure.ts'
import { BrokerError } from './broker.ts'

/** The error code of the broker; undefined for any other error. */
export function codeOf(error: unknown): number | undefined {
  return error instanceof BrokerError ? error.apiCode : undefined
}

/**
 * Converts a failure into an error of the source contract.
 *
 * @param doing what could not be done: `the topic messages cannot be read`
 */
export function logFailure(error: unknown, doing: string): SystemicError | LogUnavailableError {
  if (error instanceof SystemicError || error instanceof LogUnavailableError) return error
  return systemicFault(error, doing) ?? new LogUnavailableError(`${doing} now (${reasonOf(error)})`, { cause: error })
}

/** Waits for all calls. `failure` is the first permanent error, else the first error. */
export async function settle<Value>(calls: readonly Promise<Value>[]): Promise<{ values: Value[]; failure: unknown }> {
  const outcomes = await Promise.allSettled(calls)
  const failures = outcomes.flatMap((outcome): unknown[] => (outcome.status === 'rejected' ? [outcome.reason] : []))
  return {
    values: outcomes.flatMap(outcome => (outcome.status === 'fulfilled' ? [outcome.value] : [])),
    failure: failures.find(one => one instanceof SystemicError) ?? failures[0],
  }
}

/** The error for a partition's error code in a fetch. */
export function partitionFailure(error: number, topic: string, partition: number, offset: number): SystemicError | LogUnavailableError {
  const where = `partition ${partition} of the topic ${topic}`
  if (error === code.topicAuthorization)
    return new SystemicError(`this user is not authorized to read ${where}: grant it the right to read the topic`)
  if (error === code.corruptMessage)
    return new SystemicError(`${where} is corrupt at offset ${offset} according to its broker: restore the partition from a good replica`)
  return new LogUnavailableError(`${where} cannot be fetched (error ${error})`)
}
