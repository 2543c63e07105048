// What MongoDB's and its driver's errors mean for a batch (MongoDB's `error_codes.yml`; the driver's classes), and what MongoDB can never store.

import { named } from '../../config/options/variable.ts'
import { classOf, type ErrorRow, errorTable, type Meaning } from '../error-table.ts'
import type { Refusal } from '../rejections.ts'
import type { ErrorClass } from '../sink.ts'
import { SinkError } from '../sink-error.ts'

const url = named('store.url', 'SVC_DOCUMENT_URL')
/** Where the user and password are set. */
export const login = `user, password and authSource in ${url}, or ${named('store.user')} and ${named('store.password')}`

/** By code. A code that is not listed is systemic. */
export const errorRows: readonly ErrorRow[] = [
  { key: 1, name: 'InternalError: a fault of the server, which may pass', meaning: 'transient' },
  { key: 6, name: 'HostUnreachable', meaning: 'transient' },
  { key: 7, name: 'HostNotFound', meaning: 'transient' },
  { key: 24, name: 'LockTimeout', meaning: 'transient' },
  { key: 43, name: 'CursorNotFound', meaning: 'transient' },
  { key: 46, name: 'LockBusy', meaning: 'transient' },
  { key: 50, name: 'MaxTimeMSExpired', meaning: 'transient' },
  { key: 63, name: 'StaleShardVersion', meaning: 'transient' },
  { key: 64, name: 'WriteConcernTimeout: too few members had the rows in time', meaning: 'transient' },
  { key: 82, name: 'NoProgressMade: the shards of a collection were being moved', meaning: 'transient' },
  { key: 89, name: 'NetworkTimeout', meaning: 'transient' },
  { key: 91, name: 'ShutdownInProgress', meaning: 'transient' },
  { key: 112, name: 'WriteConflict', meaning: 'transient' },
  { key: 117, name: 'ConflictingOperationInProgress: an index is being built', meaning: 'transient' },
  { key: 133, name: 'FailedToSatisfyReadPreference: no primary', meaning: 'transient' },
  { key: 134, name: 'ReadConcernMajorityNotAvailableYet', meaning: 'transient' },
  { key: 146, name: 'ExceededMemoryLimit', meaning: 'transient' },
  { key: 150, name: 'StaleEpoch', meaning: 'transient' },
  { key: 175, name: 'QueryPlanKilled: an index or a collection was changed during the query', meaning: 'transient' },
  { key: 189, name: 'PrimarySteppedDown', meaning: 'transient' },
  { key: 202, name: 'NetworkInterfaceExceededTimeLimit', meaning: 'transient' },
  { key: 246, name: 'SnapshotUnavailable', meaning: 'transient' },
  { key: 262, name: 'ExceededTimeLimit', meaning: 'transient' },
  { key: 276, name: 'IndexBuildAborted', meaning: 'transient' },
  { key: 317, name: 'ConnectionPoolExpired', meaning: 'transient' },
  { key: 365, name: "TemporarilyUnavailable: the server's cache is under pressure", meaning: 'transient' },
  { key: 462, name: 'IngressRequestRateLimitExceeded', meaning: 'transient' },
  { key: 9001, name: 'SocketException', meaning: 'transient' },
  { key: 10107, name: 'NotWritablePrimary', meaning: 'transient' },
  { key: 11600, name: 'InterruptedAtShutdown', meaning: 'transient' },
  { key: 11601, name: 'Interrupted: an operator ended the operation', meaning: 'transient' },
  { key: 11602, name: 'InterruptedDueToReplStateChange', meaning: 'transient' },
  { key: 13388, name: 'StaleConfig', meaning: 'transient' },
  { key: 13435, name: 'NotPrimaryNoSecondaryOk', meaning: 'transient' },
  { key: 13436, name: 'NotPrimaryOrSecondary', meaning: 'transient' },
  { key: 14031, name: 'OutOfDiskSpace', meaning: 'transient' },

  { key: 2, name: 'BadValue', meaning: 'data' },
  { key: 14, name: 'TypeMismatch', meaning: 'data' },
  { key: 15, name: 'Overflow: too many levels of nesting', meaning: 'data' },
  { key: 22, name: 'InvalidBSON', meaning: 'data' },
  { key: 52, name: 'DollarPrefixedFieldName, before MongoDB 5', meaning: 'data' },
  { key: 55, name: 'InvalidDBRef', meaning: 'data' },
  { key: 56, name: 'EmptyFieldName', meaning: 'data' },
  { key: 57, name: 'DottedFieldName, before MongoDB 5', meaning: 'data' },
  { key: 121, name: 'DocumentValidationFailure: a validator that an operator created', meaning: 'data' },
  { key: 171, name: 'CannotIndexParallelArrays, in an index that an operator created', meaning: 'data' },
  { key: 10334, name: 'BSONObjectTooLarge', meaning: 'data' },
  { key: 11000, name: 'DuplicateKey, in another index than that of `_id`', meaning: 'data' },
  { key: 13026, name: 'a point does not have two numbers, in a 2d index that an operator created', meaning: 'data' },
  { key: 13027, name: 'a point is out of the bounds of a 2d index', meaning: 'data' },
  { key: 13067, name: 'a point is empty, in a 2d index', meaning: 'data' },
  { key: 13068, name: 'a point has only one number, in a 2d index', meaning: 'data' },
  { key: 16755, name: 'geo keys cannot be extracted, in an index that an operator created', meaning: 'data' },
  { key: 16766, name: 'an array, in a hashed index that an operator created', meaning: 'data' },
  { key: 17261, name: 'the language of a text is invalid, in a text index that an operator created', meaning: 'data' },
  { key: 17262, name: 'the language of a text index is unknown', meaning: 'data' },
  { key: 17280, name: 'KeyTooLong: a value is too large for an index, before MongoDB 4.2', meaning: 'data' },
  { key: 17419, name: 'the document is too large', meaning: 'data' },

  { key: 11, name: 'UserNotFound', meaning: 'systemic', advice: `the server does not know the user: correct ${login}` },
  {
    key: 13,
    name: 'Unauthorized: a permission is missing',
    meaning: 'systemic',
    advice: `grant the writer's user the \`readWrite\` role on the database, or set another ${login}`,
  },
  { key: 18, name: 'AuthenticationFailed', meaning: 'systemic', advice: `the server refused the login: correct ${login}` },
  { key: 20, name: 'IllegalOperation', meaning: 'systemic' },
  { key: 72, name: 'InvalidOptions', meaning: 'systemic' },
  { key: 73, name: 'InvalidNamespace', meaning: 'systemic' },
  {
    key: 79,
    name: 'UnknownReplWriteConcern',
    meaning: 'systemic',
    advice: `the replica set has no write concern of this name: correct ${named('store.write_concern')}`,
  },
  {
    key: 100,
    name: 'UnsatisfiableWriteConcern: the replica set has too few members',
    meaning: 'systemic',
    advice: `the replica set has fewer members with data than ${named('store.write_concern')} requires: lower it, or add members`,
  },
  {
    key: 166,
    name: 'CommandNotSupportedOnView',
    meaning: 'systemic',
    advice: 'one of the collections is a view: use a separate database for the store',
  },
]

/** The driver's classes, by name, that mean that the server is down or busy. Classes derived from them mean the same. */
const transientClasses = new Set([
  'MongoNetworkError',
  'MongoServerSelectionError',
  'PoolClosedError',
  'WaitQueueTimeoutError',
  'MongoOperationTimeoutError',
  'MongoServerClosedError',
  'MongoTopologyClosedError',
  'MongoNotConnectedError',
  'MongoStalePrimaryError',
])

/** Errors of a socket, which the driver passes on unchanged if it was writing to it. */
const socketErrors = new Set([
  'EAI_AGAIN',
  'ECONNABORTED',
  'ECONNREFUSED',
  'ECONNRESET',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOTFOUND',
  'EPIPE',
  'ETIMEDOUT',
])

/** Labels by which a server says that the request may be retried. */
const transientLabels = ['RetryableWriteError', 'TransientTransactionError', 'SystemOverloadedError', 'RetryableError']

/** A row with this `_id`, or with a value of a unique index, exists already. */
export const duplicateKey = 11_000

const rowOf = errorTable(errorRows)

/** An answer of the server, as the driver throws it. */
interface ServerError extends Error {
  readonly code: number
  hasErrorLabel(label: string): boolean
}

/** What the server says about one row that it did not insert. */
export interface WriteError {
  /** The index of the row among those sent. */
  readonly index: number
  readonly code: number
  readonly errmsg: string
  /** For a duplicate: the index that it violates. Missing from servers that speak the protocol but are not MongoDB. */
  readonly keyPattern?: Readonly<Record<string, unknown>>
}

/** Checks by name, since the driver may not be loaded. A DOMException also has a `code`, with another meaning. */
function isServerError(error: unknown): error is ServerError {
  return error instanceof Error && serverClasses.has(error.name) && typeof (error as Partial<ServerError>).code === 'number'
}
const serverClasses = new Set(['MongoServerError', 'MongoWriteConcernError', 'MongoBulkWriteError'])

export function meaningOf(code: number): Meaning {
  return rowOf(code)?.meaning ?? 'systemic'
}

/** True if the store refuses a row because of its content. */
export function isDataError(error: unknown): error is ServerError {
  return isServerError(error) && error.name !== 'MongoWriteConcernError' && meaningOf(error.code) === 'data'
}

export function isErrorOf(error: unknown, ...codes: readonly number[]): error is ServerError {
  return isServerError(error) && codes.includes(error.code)
}

export function classify(error: unknown): ErrorClass {
  return classOf(error, failure => {
    if (isOfClass(failure, transientClasses)) return isMissingLogin(failure) ? 'systemic' : 'transient'
    if (socketErrors.has(String((failure as NodeJS.ErrnoException).code))) return 'transient'
    if (!isServerError(failure)) return 'systemic'
    return transientLabels.some(label => failure.hasErrorLabel(label)) ? 'transient' : meaningOf(failure.code)
  })
}

/** Checks the names of its classes, not its own `name`, which derived classes change (`PoolClearedOnNetworkError`). */
function isOfClass(error: Error, names: ReadonlySet<string>): boolean {
  for (let prototype: unknown = Object.getPrototypeOf(error); prototype instanceof Error; prototype = Object.getPrototypeOf(prototype)) {
    if (names.has(prototype.constructor.name)) return true
  }
  return false
}

/** True if the handshake failed because of the login, which the driver sometimes reports as a network error. */
function isMissingLogin(error: Error): boolean {
  return isErrorOf(error.cause, 13, 18)
}

/** Converts a row's error that is not about the row's content. */
export function rowFailure({ code, errmsg }: WriteError, what: string): SinkError {
  const errorClass = meaningOf(code) === 'transient' ? 'transient' : 'systemic'
  const advice = rowOf(code)?.advice
  return new SinkError(errorClass, `${what} (code ${code}): ${errmsg}${advice === undefined ? '' : `: ${advice}`}`)
}

/** Adds to a systemic error what to do about it; returns every other error unchanged. */
export function explained(error: unknown): unknown {
  const answer = isServerError(error) ? error : isServerError((error as Error | undefined)?.cause) ? (error as Error).cause : undefined
  if (!isServerError(answer) || classify(error) !== 'systemic') return error
  const what = rowOf(answer.code)?.advice ?? 'retrying does not help'
  return new SinkError('systemic', `MongoDB refused (code ${answer.code}): ${answer.message.replaceAll(/\s+/g, ' ')}: ${what}`, {
    cause: error,
  })
}

/** MongoDB's `maxBsonObjectSize`: 16 MiB, in every version and deployment. */
export const documentBytesMax = 16 * 1024 * 1024

/**
 * Most bytes of channel, publisher and format together. Since version 4.2 MongoDB does not limit index entries, so without this limit each row of a
 * device with long ids would have two long ones. The limit is the one that other stores need.
 */
export const identifiersBytesMax = 2048

/** Thrown while a payload is being encoded. */
export class Unwritable extends Error {
  override readonly name = 'Unwritable'
  readonly refusal: Refusal

  constructor(refusal: Refusal) {
    super(refusal.reason)
    this.refusal = refusal
  }
}

export const tooLarge: Refusal = {
  rule: 'store-refused',
  reason: `its row has more than ${documentBytesMax} bytes, the most that a document of MongoDB can hold`,
  hint: 'send it in several messages',
}

export const nulInKey: Refusal = {
  rule: 'store-refused',
  reason: 'a key contains a NUL, which ends names in BSON',
  hint: 'send the key without U+0000',
}

export const notFinite: Refusal = {
  rule: 'store-refused',
  reason: 'a number is larger than the largest double',
  hint: 'send it as a text',
}
