// What the driver's errors mean for a batch.
//
// Errors are recognized by their name and by the code of the native protocol (version 4, §9), so that the driver need not be loaded.

import { named } from '../../config/options/variable.ts'
import { classOf, type ErrorRow, errorTable, type Meaning } from '../error-table.ts'
import type { ErrorClass } from '../sink.ts'
import { SinkError } from '../sink-error.ts'

const serverErrors = {
  badCredentials: 0x0100,
  overloaded: 0x1001,
  writeTimeout: 0x1100,
  readTimeout: 0x1200,
  readFailure: 0x1300,
  casUnknown: 0x1700,
  syntax: 0x2000,
  unauthorized: 0x2100,
  invalid: 0x2200,
  configuration: 0x2300,
  alreadyExists: 0x2400,
  unprepared: 0x2500,
} as const

const url = named('store.url', 'SVC_WIDECOLUMN_URL')
const giveLogin = `set its user and password in ${url}, or in ${named('store.user')} and ${named('store.password')}`

/**
 * By the code of an answer, the name of one of the driver's errors, or the message of one without a name. An error that is not listed is systemic.
 */
export const errorRows: readonly ErrorRow[] = [
  { key: 'NoHostAvailableError', name: 'no node could be reached; systemic if one of them refused the connection', meaning: 'transient' },
  { key: 'OperationTimedOutError', name: 'no answer in time', meaning: 'transient' },
  { key: 'BusyConnectionError', name: 'too many requests are in flight on a connection', meaning: 'transient' },
  { key: 'DriverError', name: 'the connection failed', meaning: 'transient' },
  { key: 'No connection available', name: 'a node is up, but there is no connection to it yet', meaning: 'transient' },
  { key: 'Connection closed', name: 'a connection was closed before it was used', meaning: 'transient' },
  { key: 'AuthenticationError', name: 'the role or its password', meaning: 'systemic', advice: giveLogin },
  {
    key: 'ArgumentError',
    name: 'the cluster has no such data center',
    meaning: 'systemic',
    advice: `set ?dc= of ${url} to one of its data centers`,
  },
  { key: '0x0000', name: 'server error', meaning: 'transient' },
  { key: '0x0100', name: 'bad credentials', meaning: 'systemic', advice: giveLogin },
  { key: '0x1000', name: 'unavailable: too few replicas are up', meaning: 'transient' },
  { key: '0x1001', name: 'overloaded', meaning: 'transient' },
  { key: '0x1002', name: 'bootstrapping', meaning: 'transient' },
  { key: '0x1003', name: 'truncate error', meaning: 'transient' },
  { key: '0x1100', name: 'write time-out', meaning: 'transient' },
  { key: '0x1200', name: 'read time-out', meaning: 'transient' },
  { key: '0x1300', name: 'read failure', meaning: 'transient' },
  { key: '0x1500', name: 'write failure', meaning: 'transient' },
  { key: '0x1600', name: 'CDC write failure: its folder is full', meaning: 'transient' },
  { key: '0x1700', name: 'the outcome of a conditional write is unknown', meaning: 'transient' },
  { key: '0x2500', name: 'unprepared', meaning: 'transient' },
  { key: '0x2000', name: 'syntax error', meaning: 'systemic' },
  { key: '0x2100', name: 'unauthorized: a permission is missing', meaning: 'systemic', advice: `grant it to the role in ${url}` },
  { key: '0x2200', name: 'invalid: a table or column is missing or has another type', meaning: 'systemic' },
  { key: '0x2300', name: 'configuration error: for example, of the replication', meaning: 'systemic' },
]

const rowOf = errorTable(errorRows)

/** Matches those answers `invalid` that are about the content of a row, also for an index that an operator created. */
const dataSentences =
  /^(Rejected an oversized mutation|Request is too big|Key length of |Key may not be empty|Batch too large|Cannot index value of size )/

/**
 * Guardrails, the limits that an operator sets for a cluster, by name (Cassandra 5.0 and its next version). All others are about statements, tables
 * or the cluster, not about the content of a row: systemic.
 */
export const guardrails: Readonly<Record<string, Meaning>> = {
  column_value_size: 'data',
  column_ascii_value_size: 'data',
  column_blob_value_size: 'data',
  column_text_value_size: 'data',
  collection_size: 'data',
  items_per_collection: 'data',
  vector_dimensions: 'data',
  // Of an index, such as the one by publisher.
  sai_string_term_size: 'data',
  sai_frozen_term_size: 'data',
  sai_vector_term_size: 'data',
  replica_disk_usage: 'transient',
  local_data_disk_usage: 'transient',
  data_disk_usage: 'transient',
  data_disk_usage_percentage: 'transient',
}

/** Matches what the driver throws, before it sends anything, for a value that it cannot encode. */
const encodingSentences = /^(Not a valid |Expected |Invalid |Value |Target data type )/

interface DriverFailure extends Error {
  readonly code?: number | string
  readonly innerErrors?: Readonly<Record<string, unknown>>
}

export function isAnswer(error: unknown, ...kinds: readonly (keyof typeof serverErrors)[]): error is Error {
  const { name, code } = (error ?? {}) as DriverFailure
  return name === 'ResponseError' && kinds.some(kind => serverErrors[kind] === code)
}

/** Classifies an error of `openSink` or `write`. */
export function classify(error: unknown): ErrorClass {
  return classOf(error, meaningOf)
}

/** True if the store refuses a row because of its content. */
export function isDataError(error: unknown): boolean {
  return error instanceof Error && meaningOf(error) === 'data'
}

function meaningOf(error: Error): Meaning {
  const { name, code, message } = error as DriverFailure
  if (name === 'NoHostAvailableError') return meaningOfNodes(error)
  if (name === 'ResponseError') return meaningOfAnswer(Number(code), message)
  if (name === 'RangeError' && code === 'ERR_OUT_OF_RANGE') return 'data'
  if (name === 'TypeError' && encodingSentences.test(message)) return 'data'
  if (isCertificateFault(error)) return 'systemic'
  if (typeof code === 'string' && /^E[A-Z_]+$/.test(code) && !code.startsWith('ERR_')) return 'transient'
  const word = name === 'Error' ? message : name
  return rowOf(word)?.meaning ?? 'systemic'
}

/** A node that refuses the connection outweighs nodes that are down, since no retry helps against that. */
function meaningOfNodes(error: DriverFailure): Meaning {
  return saidBy(error).some(isRefusal) ? 'systemic' : 'transient'
}

/** True if a node refuses the connection, or its certificate is wrong. A plain error only says that the driver has no connection to a node. */
function isRefusal(inner: Error): boolean {
  return inner.name !== 'Error' && meaningOf(inner) === 'systemic' ? true : isCertificateFault(inner)
}

/** The errors of the nodes that were tried. For some nodes the driver only notes that they are down; these are left out. */
function saidBy({ innerErrors }: DriverFailure): Error[] {
  return Object.values(innerErrors ?? {}).filter(inner => inner instanceof Error)
}

function meaningOfAnswer(code: number, message: string): Meaning {
  if (code === serverErrors.invalid) {
    const guardrail = guardrailIn(message)
    if (guardrail !== undefined) return Object.hasOwn(guardrails, guardrail) ? guardrails[guardrail]! : 'systemic'
    if (dataSentences.test(message)) return 'data'
  }
  // A node that cannot read its roles because their replicas are down answers with the code of a wrong password.
  if (code === serverErrors.badCredentials && message.startsWith('Unable to perform authentication')) return 'transient'
  return rowOf(`0x${code.toString(16).padStart(4, '0')}`)?.meaning ?? 'systemic'
}

function guardrailIn(message: string): string | undefined {
  return /Guardrail (\S+) violated/.exec(message)?.[1]
}

/** The name of the guardrail that a statement would violate: `tables`. */
export function guardrailOf(error: unknown): string | undefined {
  return isAnswer(error, 'invalid') ? guardrailIn(error.message) : undefined
}

/** Matches the codes of OpenSSL and Node for certificates that are not trusted. */
function isCertificateFault(error: unknown): boolean {
  const code = String((error as DriverFailure).code ?? '')
  return /CERT|^ERR_TLS|^ERR_SSL|UNABLE_TO_VERIFY|UNABLE_TO_GET_ISSUER/.test(code)
}

/** True if the server is too slow for the number of requests: fewer in flight help. */
export function isOverload(error: unknown): boolean {
  const { name } = error as DriverFailure
  return name === 'OperationTimedOutError' || name === 'BusyConnectionError' || isAnswer(error, 'overloaded', 'writeTimeout', 'readTimeout')
}

/** True if this cluster will never accept this change of the schema from this role. */
export function isUnchangeable(error: unknown): error is Error {
  return isAnswer(error, 'unauthorized', 'invalid', 'syntax', 'configuration')
}

/** True if a statement that needs an index failed because the index is missing, or a node is still building it. */
export function isIndexFault(error: unknown): boolean {
  return isAnswer(error, 'readFailure') || isSchemaFault(error)
}

/** True if it is unknown whether a conditional write was applied: the caller has to read it. */
export function isUndecided(error: unknown): boolean {
  return isAnswer(error, 'casUnknown', 'writeTimeout')
}

/**
 * True if a prepared statement no longer fits the schema: a table or a column is missing. A node then asks the driver to prepare it again, which
 * fails, and the driver only reports that it has no node left to try.
 */
export function isSchemaFault(error: unknown): boolean {
  const failure = error as DriverFailure
  if (guardrailOf(failure) !== undefined) return false
  if (failure.name === 'NoHostAvailableError') return saidBy(failure).some(inner => isAnswer(inner, 'unprepared'))
  return isAnswer(failure, 'invalid', 'unprepared')
}

/** The role, data center and keyspace in the options. */
export interface Caller {
  readonly user: string | undefined
  readonly dataCenter: string
  readonly keyspace: string
}

/** Returns the error with what to do about it, if that is known; otherwise the same error. The driver's messages contain no secrets. */
export function explained(error: unknown, who: Caller): unknown {
  if (!(error instanceof Error) || error instanceof SinkError || meaningOf(error) !== 'systemic') return error
  const failure = (error as DriverFailure).name === 'NoHostAvailableError' ? (saidBy(error).find(isRefusal) ?? error) : error
  const { name, message } = failure
  if (isCertificateFault(failure)) {
    return systemic(
      `the certificate of a Cassandra node is not trusted (${message}): set ${named('store.ca_file')}, and ${named('store.tls_name')} if the certificates do not contain the nodes' addresses`,
      error,
    )
  }
  if (name === 'AuthenticationError' || isAnswer(failure, 'badCredentials')) {
    const role = who.user === undefined ? 'Cassandra requires a login, and none is configured' : `Cassandra refused the role "${who.user}"`
    return systemic(`${role} (${message}): ${giveLogin}`, error)
  }
  if (name === 'ArgumentError' && message.includes('localDataCenter')) {
    const centers = /found hosts in data centers: \[(.*)\]/.exec(message)?.[1] ?? 'others'
    return systemic(`the cluster has no data center "${who.dataCenter}", only ${centers}: set ?dc= of ${url} to one of these`, error)
  }
  if (isAnswer(failure, 'unauthorized')) {
    const grants = `GRANT SELECT ON KEYSPACE "${who.keyspace}", and for a writer also MODIFY and CREATE`
    return systemic(`Cassandra refused a statement (unauthorized: ${message}): grant the role in ${url} the permissions: ${grants}`, error)
  }
  const guardrail = guardrailOf(failure)
  if (guardrail !== undefined) {
    return systemic(`a limit of the cluster refuses this (${message}): raise "${guardrail}" in the cassandra.yaml of the nodes`, error)
  }
  return error
}

function systemic(sentence: string, cause: unknown): SinkError {
  return new SinkError('systemic', sentence, { cause })
}
