// What an error of the driver means for a batch. README.md shows this table.
//
// Errors are told apart by name and by the code of the native protocol (version 4, §9), so that the driver is not loaded for it.

import { named } from '../../config/option-variable.ts'
import type { ErrorClass } from '../sink.ts'
import { SinkError } from '../sink-error.ts'

/**
 * - transient: the same write is tried again, for ever
 * - data: a row can never be stored: its message is rejected
 * - systemic: the writer stops
 */
export type Meaning = ErrorClass | 'data'

export interface ErrorRow {
  /** The code of an answer, the name of an error of the driver's own, or the message of one without a name. */
  readonly error: number | string
  readonly name: string
  readonly meaning: Meaning
}

export const unauthorized = 0x2100
export const alreadyExists = 0x2400
const invalid = 0x2200
const syntaxError = 0x2000
const configurationError = 0x2300
const readFailure = 0x1300
const unprepared = 0x2500
const serverCodes = { writeTimeout: 0x1100, casUnknown: 0x1700 } as const

/** What is not listed is systemic. */
export const errorRows: readonly ErrorRow[] = [
  { error: 'NoHostAvailableError', name: 'no node could be asked; what they said counts where it is systemic', meaning: 'transient' },
  { error: 'OperationTimedOutError', name: 'no answer in time', meaning: 'transient' },
  { error: 'BusyConnectionError', name: 'a connection has too many requests under way', meaning: 'transient' },
  { error: 'DriverError', name: 'the connection failed', meaning: 'transient' },
  { error: 'No connection available', name: 'a node is up, and no connection to it is there yet', meaning: 'transient' },
  { error: 'Connection closed', name: 'a connection was closed before it was used', meaning: 'transient' },
  { error: 'AuthenticationError', name: 'the role or its password', meaning: 'systemic' },
  { error: 'ArgumentError', name: 'the data center is none of the cluster', meaning: 'systemic' },
  { error: 0x0000, name: 'server error', meaning: 'transient' },
  { error: 0x0100, name: 'bad credentials', meaning: 'systemic' },
  { error: 0x1000, name: 'unavailable: too few replicas are up', meaning: 'transient' },
  { error: 0x1001, name: 'overloaded', meaning: 'transient' },
  { error: 0x1002, name: 'bootstrapping', meaning: 'transient' },
  { error: 0x1003, name: 'truncate error', meaning: 'transient' },
  { error: serverCodes.writeTimeout, name: 'write time-out', meaning: 'transient' },
  { error: 0x1200, name: 'read time-out', meaning: 'transient' },
  { error: readFailure, name: 'read failure', meaning: 'transient' },
  { error: 0x1500, name: 'write failure', meaning: 'transient' },
  { error: 0x1600, name: 'CDC write failure: its folder is full', meaning: 'transient' },
  { error: serverCodes.casUnknown, name: 'a conditional write of which nobody knows', meaning: 'transient' },
  { error: unprepared, name: 'unprepared', meaning: 'transient' },
  { error: syntaxError, name: 'syntax error', meaning: 'systemic' },
  { error: unauthorized, name: 'unauthorized: a permission is missing', meaning: 'systemic' },
  { error: invalid, name: 'invalid: a table or column is missing, or of another type', meaning: 'systemic' },
  { error: configurationError, name: 'configuration error: of the replication, say', meaning: 'systemic' },
]

/** Of the answers `invalid`, those that are about what a row holds: also for an index that an operator has made. */
const dataSentences =
  /^(Rejected an oversized mutation|Request is too big|Key length of |Key may not be empty|Batch too large|Cannot index value of size )/

/**
 * Limits that an operator gives a cluster, by name, as of Cassandra 5.0 and its next version. All others are about statements, tables, or the
 * cluster as a whole, whatever a row holds: systemic.
 */
export const guardrails: Readonly<Record<string, Meaning>> = {
  column_value_size: 'data',
  column_ascii_value_size: 'data',
  column_blob_value_size: 'data',
  column_text_value_size: 'data',
  collection_size: 'data',
  items_per_collection: 'data',
  vector_dimensions: 'data',
  // Of an index, such as that by publisher.
  sai_string_term_size: 'data',
  sai_frozen_term_size: 'data',
  sai_vector_term_size: 'data',
  replica_disk_usage: 'transient',
  local_data_disk_usage: 'transient',
  data_disk_usage: 'transient',
  data_disk_usage_percentage: 'transient',
}

/** What the driver throws, before it sends anything, for a value that it cannot encode. */
const encodingSentences = /^(Not a valid |Expected |Invalid |Value |Target data type )/

interface DriverFailure extends Error {
  readonly code?: number | string
  readonly innerErrors?: Readonly<Record<string, unknown>>
}

export function meaningOf(error: unknown): Meaning {
  if (!(error instanceof Error)) return 'systemic'
  if (error instanceof SinkError) return error.errorClass
  // Ended by the caller's signal: nothing is wrong with the store.
  if (error.name === 'AbortError') return 'transient'
  const { name, code, message } = error as DriverFailure
  if (name === 'NoHostAvailableError') return meaningOfNodes(error)
  if (name === 'ResponseError') return meaningOfAnswer(Number(code), message)
  if (name === 'RangeError' && code === 'ERR_OUT_OF_RANGE') return 'data'
  if (name === 'TypeError' && encodingSentences.test(message)) return 'data'
  if (isCertificateFault(error)) return 'systemic'
  if (typeof code === 'string' && /^E[A-Z_]+$/.test(code) && !code.startsWith('ERR_')) return 'transient'
  const word = name === 'Error' ? message : name
  return errorRows.find(row => row.error === word)?.meaning ?? 'systemic'
}

/** A node that refuses us counts more than one that is away: no retry mends it. */
function meaningOfNodes(error: DriverFailure): Meaning {
  return saidBy(error).some(isRefusal) ? 'systemic' : 'transient'
}

/** Of a node: what it said, or who it is. A plain error is the driver's own word for a node that it has no connection to. */
function isRefusal(inner: Error): boolean {
  return inner.name !== 'Error' && meaningOf(inner) === 'systemic' ? true : isCertificateFault(inner)
}

/** What the nodes said that were asked: errors only, since of some the driver just notes that they are down. */
function saidBy({ innerErrors }: DriverFailure): Error[] {
  return Object.values(innerErrors ?? {}).filter(inner => inner instanceof Error)
}

function meaningOfAnswer(code: number, message: string): Meaning {
  if (code === invalid) {
    const guardrail = guardrailIn(message)
    if (guardrail !== undefined) return Object.hasOwn(guardrails, guardrail) ? guardrails[guardrail]! : 'systemic'
    if (dataSentences.test(message)) return 'data'
  }
  // A node that cannot read its roles, since their replicas are away, says so with the code of a wrong password.
  if (code === 0x0100 && message.startsWith('Unable to perform authentication')) return 'transient'
  return errorRows.find(row => row.error === code)?.meaning ?? 'systemic'
}

function guardrailIn(message: string): string | undefined {
  return /Guardrail (\S+) violated/.exec(message)?.[1]
}

/** The name of the limit that a statement would go beyond: `tables`. */
export function guardrailOf(error: unknown): string | undefined {
  const { name, code, message } = (error ?? {}) as DriverFailure
  return name === 'ResponseError' && code === invalid ? guardrailIn(message) : undefined
}

/** The codes of OpenSSL and of Node for certificates that are not believed. */
export function isCertificateFault(error: unknown): boolean {
  const code = String((error as DriverFailure).code ?? '')
  return /CERT|^ERR_TLS|^ERR_SSL|UNABLE_TO_VERIFY|UNABLE_TO_GET_ISSUER/.test(code)
}

/** What an error of `openSink` and of `write` means. */
export function classify(error: unknown): ErrorClass {
  const meaning = meaningOf(error)
  // Data is rejected where a row is written. Anywhere else it is none of a message's.
  return meaning === 'data' ? 'systemic' : meaning
}

/** A request that the server is not quick enough for: fewer of them at a time help. */
export function isOverload(error: unknown): boolean {
  const { name, code } = error as DriverFailure
  return name === 'OperationTimedOutError' || name === 'BusyConnectionError' || [0x1001, 0x1100, 0x1200].includes(Number(code))
}

export function isDenied(error: unknown): error is Error {
  return (error as DriverFailure | undefined)?.name === 'ResponseError' && (error as DriverFailure).code === unauthorized
}

/** A change of the schema that this cluster does not take from this role, however often it is tried. */
export function isUnchangeable(error: unknown): error is Error {
  const { name, code } = (error ?? {}) as DriverFailure
  return name === 'ResponseError' && [unauthorized, invalid, syntaxError, configurationError].includes(Number(code))
}

/** A statement that looks by an index: there is none, or a node that was asked is still making it. */
export function isIndexFault(error: unknown): boolean {
  const { name, code } = (error ?? {}) as DriverFailure
  return (name === 'ResponseError' && code === readFailure) || isSchemaFault(error)
}

/** Nobody knows whether a conditional write was applied: it is to be looked up. */
export function isUndecided(error: unknown): boolean {
  const { name, code } = error as DriverFailure
  return name === 'ResponseError' && (code === serverCodes.casUnknown || code === serverCodes.writeTimeout)
}

/**
 * True where a statement that was prepared no longer fits the schema: a table is gone, or a column. A node then asks for it to be prepared anew,
 * which fails, and the driver says only that no node was left.
 */
export function isSchemaFault(error: unknown): boolean {
  const failure = error as DriverFailure
  if (guardrailOf(failure) !== undefined) return false
  if (failure.name === 'ResponseError') return failure.code === invalid || failure.code === unprepared
  return failure.name === 'NoHostAvailableError' && saidBy(failure).some(inner => (inner as DriverFailure).code === unprepared)
}

/** Who asks, as the options say. */
export interface Caller {
  readonly user: string | undefined
  readonly dataCenter: string
  readonly keyspace: string
}

const url = named('store.url', 'SVC_WIDECOLUMN_URL')

/** The error with what to do about it, where that is known; the same error otherwise. Nothing secret is in what the driver says. */
export function explained(error: unknown, who: Caller): unknown {
  if (!(error instanceof Error) || error instanceof SinkError || meaningOf(error) !== 'systemic') return error
  const failure = (error as DriverFailure).name === 'NoHostAvailableError' ? (saidBy(error).find(isRefusal) ?? error) : error
  const { name, code, message } = failure as DriverFailure
  if (isCertificateFault(failure)) {
    return systemic(
      `the certificate of a Cassandra node is not believed (${message}): give ${named('store.ca_file')}, and ${named('store.tls_name')} where certificates name no addresses`,
      error,
    )
  }
  if (name === 'AuthenticationError' || code === 0x0100) {
    const role = who.user === undefined ? 'Cassandra asks for a role, and none is configured' : `Cassandra refuses the role "${who.user}"`
    return systemic(
      `${role} (${message}): give its user and password in ${url}, or as ${named('store.user')} and ${named('store.password')}`,
      error,
    )
  }
  if (name === 'ArgumentError' && message.includes('localDataCenter')) {
    const centers = /found hosts in data centers: \[(.*)\]/.exec(message)?.[1] ?? 'others'
    return systemic(`the cluster has the data centers ${centers}, and not "${who.dataCenter}": name one of them in ?dc= of ${url}`, error)
  }
  if (code === unauthorized) {
    const grants = `GRANT SELECT ON KEYSPACE "${who.keyspace}", and for a writer also MODIFY and CREATE`
    return systemic(`Cassandra refused a statement (unauthorized: ${message}): grant it to the role of ${url}: ${grants}`, error)
  }
  const guardrail = guardrailOf(failure)
  if (guardrail !== undefined) {
    return systemic(
      `Cassandra is set to refuse this (${message}): raise the limit "${guardrail}" in the cassandra.yaml of the nodes`,
      error,
    )
  }
  return error
}

function systemic(sentence: string, cause: unknown): SinkError {
  return new SinkError('systemic', sentence, { cause })
}
