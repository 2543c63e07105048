// What a failure of a consumer means: a log that is away for now, or what no retry can mend.

import { LogUnavailableError } from '../../log.ts'
import { SystemicError } from '../../systemic-error.ts'
import { code, reasonOf, systemicFault } from '../failure.ts'
import { BrokerError } from './broker.ts'

/** What the broker answered; undefined where it is no answer that failed. */
export function codeOf(error: unknown): number | undefined {
  return error instanceof BrokerError ? error.apiCode : undefined
}

/**
 * The failure as the contract of a source has it.
 *
 * @param doing what could not be done: `the topic messages cannot be read`
 */
export function logFailure(error: unknown, doing: string): SystemicError | LogUnavailableError {
  if (error instanceof SystemicError || error instanceof LogUnavailableError) return error
  return systemicFault(error, doing) ?? new LogUnavailableError(`${doing} now (${reasonOf(error)})`, { cause: error })
}

/** Waits for all of them. `failure` is the first of those that failed, and what no retry can mend before all others. */
export async function settle<Value>(calls: readonly Promise<Value>[]): Promise<{ values: Value[]; failure: unknown }> {
  const outcomes = await Promise.allSettled(calls)
  const failures = outcomes.flatMap((outcome): unknown[] => (outcome.status === 'rejected' ? [outcome.reason] : []))
  return {
    values: outcomes.flatMap(outcome => (outcome.status === 'fulfilled' ? [outcome.value] : [])),
    failure: failures.find(one => one instanceof SystemicError) ?? failures[0],
  }
}

/** What a broker said of one partition when it was fetched. */
export function partitionFailure(error: number, topic: string, partition: number, offset: number): SystemicError | LogUnavailableError {
  const where = `partition ${partition} of the topic ${topic}`
  if (error === code.topicAuthorization) return new SystemicError(`${where} may not be read: allow its user to read the topic`)
  if (error === code.corruptMessage)
    return new SystemicError(`${where} is corrupt at offset ${offset}, its broker says: restore the partition from a good replica`)
  return new LogUnavailableError(`${where} cannot be fetched (error ${error})`)
}
