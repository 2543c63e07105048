// What an error of MongoDB or of its driver means (MongoDB's `error_codes.yml`; the driver's classes). README.md shows this table.

import { named } from '../../config/option-variable.ts'
import type { ErrorClass } from '../sink.ts'
import { SinkError } from '../sink-error.ts'

/**
 * - transient: the same write is tried again, for ever
 * - data: of a row, it can never be stored: its message is rejected. Of anything else it is systemic
 * - systemic: the writer stops
 */
export type ErrorMeaning = 'transient' | 'data' | 'systemic'

export interface ErrorCodeRow {
  readonly code: number
  readonly name: string
  readonly meaning: ErrorMeaning
}

/** What is not listed is systemic. */
export const errorCodes: readonly ErrorCodeRow[] = [
  { code: 1, name: 'InternalError: the server is at fault, and may get over it', meaning: 'transient' },
  { code: 6, name: 'HostUnreachable', meaning: 'transient' },
  { code: 7, name: 'HostNotFound', meaning: 'transient' },
  { code: 24, name: 'LockTimeout', meaning: 'transient' },
  { code: 43, name: 'CursorNotFound', meaning: 'transient' },
  { code: 46, name: 'LockBusy', meaning: 'transient' },
  { code: 50, name: 'MaxTimeMSExpired', meaning: 'transient' },
  { code: 63, name: 'StaleShardVersion', meaning: 'transient' },
  { code: 64, name: 'WriteConcernTimeout: too few members had the rows in time', meaning: 'transient' },
  { code: 82, name: 'NoProgressMade: the shards of a collection were being moved', meaning: 'transient' },
  { code: 89, name: 'NetworkTimeout', meaning: 'transient' },
  { code: 91, name: 'ShutdownInProgress', meaning: 'transient' },
  { code: 112, name: 'WriteConflict', meaning: 'transient' },
  { code: 117, name: 'ConflictingOperationInProgress: an index is being built', meaning: 'transient' },
  { code: 133, name: 'FailedToSatisfyReadPreference: no primary', meaning: 'transient' },
  { code: 134, name: 'ReadConcernMajorityNotAvailableYet', meaning: 'transient' },
  { code: 146, name: 'ExceededMemoryLimit', meaning: 'transient' },
  { code: 150, name: 'StaleEpoch', meaning: 'transient' },
  { code: 175, name: 'QueryPlanKilled: an index or a collection was changed meanwhile', meaning: 'transient' },
  { code: 189, name: 'PrimarySteppedDown', meaning: 'transient' },
  { code: 202, name: 'NetworkInterfaceExceededTimeLimit', meaning: 'transient' },
  { code: 246, name: 'SnapshotUnavailable', meaning: 'transient' },
  { code: 262, name: 'ExceededTimeLimit', meaning: 'transient' },
  { code: 276, name: 'IndexBuildAborted', meaning: 'transient' },
  { code: 317, name: 'ConnectionPoolExpired', meaning: 'transient' },
  { code: 365, name: 'TemporarilyUnavailable: the cache of the server is under pressure', meaning: 'transient' },
  { code: 462, name: 'IngressRequestRateLimitExceeded', meaning: 'transient' },
  { code: 9001, name: 'SocketException', meaning: 'transient' },
  { code: 10107, name: 'NotWritablePrimary', meaning: 'transient' },
  { code: 11600, name: 'InterruptedAtShutdown', meaning: 'transient' },
  { code: 11601, name: 'Interrupted: an operator ended the operation', meaning: 'transient' },
  { code: 11602, name: 'InterruptedDueToReplStateChange', meaning: 'transient' },
  { code: 13388, name: 'StaleConfig', meaning: 'transient' },
  { code: 13435, name: 'NotPrimaryNoSecondaryOk', meaning: 'transient' },
  { code: 13436, name: 'NotPrimaryOrSecondary', meaning: 'transient' },
  { code: 14031, name: 'OutOfDiskSpace', meaning: 'transient' },

  { code: 2, name: 'BadValue', meaning: 'data' },
  { code: 14, name: 'TypeMismatch', meaning: 'data' },
  { code: 15, name: 'Overflow: too many levels of nesting', meaning: 'data' },
  { code: 22, name: 'InvalidBSON', meaning: 'data' },
  { code: 52, name: 'DollarPrefixedFieldName, before MongoDB 5', meaning: 'data' },
  { code: 55, name: 'InvalidDBRef', meaning: 'data' },
  { code: 56, name: 'EmptyFieldName', meaning: 'data' },
  { code: 57, name: 'DottedFieldName, before MongoDB 5', meaning: 'data' },
  { code: 121, name: 'DocumentValidationFailure: a validator that an operator made', meaning: 'data' },
  { code: 171, name: 'CannotIndexParallelArrays, in an index that an operator made', meaning: 'data' },
  { code: 10334, name: 'BSONObjectTooLarge', meaning: 'data' },
  { code: 11000, name: 'DuplicateKey, of another index than that of `_id`', meaning: 'data' },
  { code: 13026, name: 'a point of two numbers is asked for, in a 2d index that an operator made', meaning: 'data' },
  { code: 13027, name: 'a point is out of the bounds of a 2d index', meaning: 'data' },
  { code: 13067, name: 'a point is empty, in a 2d index', meaning: 'data' },
  { code: 13068, name: 'a point has one number alone, in a 2d index', meaning: 'data' },
  { code: 16755, name: 'geo keys cannot be had, in an index that an operator made', meaning: 'data' },
  { code: 16766, name: 'an array, in a hashed index that an operator made', meaning: 'data' },
  { code: 17261, name: 'the language of a text is none, in a text index that an operator made', meaning: 'data' },
  { code: 17262, name: 'the language of a text index is not known', meaning: 'data' },
  { code: 17280, name: 'KeyTooLong: an index row is too long, before MongoDB 4.2', meaning: 'data' },
  { code: 17419, name: 'the document is too large', meaning: 'data' },

  { code: 11, name: 'UserNotFound', meaning: 'systemic' },
  { code: 13, name: 'Unauthorized: a right is missing', meaning: 'systemic' },
  { code: 18, name: 'AuthenticationFailed', meaning: 'systemic' },
  { code: 20, name: 'IllegalOperation', meaning: 'systemic' },
  { code: 72, name: 'InvalidOptions', meaning: 'systemic' },
  { code: 73, name: 'InvalidNamespace', meaning: 'systemic' },
  { code: 79, name: 'UnknownReplWriteConcern', meaning: 'systemic' },
  { code: 100, name: 'UnsatisfiableWriteConcern: the set has not so many members', meaning: 'systemic' },
  { code: 166, name: 'CommandNotSupportedOnView', meaning: 'systemic' },
]

/** Of the driver's own classes, by name, those that mean that the server is away or busy, with what is derived from them. */
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

/** Errors of a socket, which the driver passes on as they are where it was writing to it. */
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

/** By which a server says that the same may be tried again. */
const transientLabels = ['RetryableWriteError', 'TransientTransactionError', 'SystemOverloadedError', 'RetryableError']

const meanings = new Map(errorCodes.map(({ code, meaning }) => [code, meaning]))

/** An answer of the server, as the driver throws it. */
export interface ServerError extends Error {
  readonly code: number
  hasErrorLabel(label: string): boolean
}

/** What the server says of one row that it did not insert. */
export interface WriteError {
  /** Of the row among those sent. */
  readonly index: number
  readonly code: number
  readonly errmsg: string
  /** Of a duplicate: the index that has it. Absent from servers that speak the protocol and are not MongoDB. */
  readonly keyPattern?: Readonly<Record<string, unknown>>
}

/** By name, since the driver is not loaded where errors are only looked at. A DOMException has a `code` too, and means something else. */
export function isServerError(error: unknown): error is ServerError {
  return error instanceof Error && serverClasses.has(error.name) && typeof (error as Partial<ServerError>).code === 'number'
}
const serverClasses = new Set(['MongoServerError', 'MongoWriteConcernError', 'MongoBulkWriteError'])

export function meaningOf(code: number): ErrorMeaning {
  return meanings.get(code) ?? 'systemic'
}

/** True for an answer that no row of this kind can ever be stored. */
export function isDataError(error: unknown): error is ServerError {
  return isServerError(error) && error.name !== 'MongoWriteConcernError' && meaningOf(error.code) === 'data'
}

export function isErrorOf(error: unknown, ...codes: readonly number[]): error is ServerError {
  return isServerError(error) && codes.includes(error.code)
}

/** What an error of `openSink`, `write` and `maintain` means. */
export function classify(error: unknown): ErrorClass {
  if (error instanceof SinkError) return error.errorClass
  if (!(error instanceof Error)) return 'systemic'
  // Ended by the caller's signal: nothing is wrong with the store.
  if (error.name === 'AbortError') return 'transient'
  if (isOfClass(error, transientClasses)) return isMissingLogin(error) ? 'systemic' : 'transient'
  if (socketErrors.has(String((error as NodeJS.ErrnoException).code))) return 'transient'
  if (!isServerError(error)) return 'systemic'
  if (transientLabels.some(label => error.hasErrorLabel(label))) return 'transient'
  return meaningOf(error.code) === 'transient' ? 'transient' : 'systemic'
}

/** By the names of its classes and not by its own, which a derived class has anew (`PoolClearedOnNetworkError`). */
function isOfClass(error: Error, names: ReadonlySet<string>): boolean {
  for (let prototype: unknown = Object.getPrototypeOf(error); prototype instanceof Error; prototype = Object.getPrototypeOf(prototype)) {
    if (names.has(prototype.constructor.name)) return true
  }
  return false
}

/** The handshake failed because of who we are: the driver takes that for an error of the network now and then. */
function isMissingLogin(error: Error): boolean {
  return isErrorOf(error.cause, 13, 18)
}

/** What a row's error means that is not about what the row holds. */
export function rowFailure({ code, errmsg }: WriteError, what: string): SinkError {
  const errorClass = meaningOf(code) === 'transient' ? 'transient' : 'systemic'
  const help = errorClass === 'systemic' && advice[code] !== undefined ? `: ${advice[code]}` : ''
  return new SinkError(errorClass, `${what} (code ${code}): ${errmsg}${help}`)
}

const url = named('store.url', 'SVC_DOCUMENT_URL')
/** Where a person says who comes. */
export const login = `user, password and authSource in ${url}, or ${named('store.user')} and ${named('store.password')}`

const advice: Readonly<Record<number, string>> = {
  11: `the server does not know the user: correct ${login}`,
  13: `grant the writer's user the \`readWrite\` role on the database, or name another user in ${login}`,
  18: `the server does not let the user in: correct ${login}`,
  79: `the replica set knows no write concern of this name: correct ${named('store.write_concern')}`,
  100: `the replica set has not as many members that hold data as ${named('store.write_concern')} asks for: lower it, or add members`,
  166: 'one of the collections is a view: the store needs a database of its own',
}

/** What stops the writer with what to do about it; every other error as it is. */
export function explained(error: unknown): unknown {
  const answer = isServerError(error) ? error : isServerError((error as Error | undefined)?.cause) ? (error as Error).cause : undefined
  if (!isServerError(answer) || classify(error) !== 'systemic') return error
  const what = advice[answer.code] ?? 'no retry can mend this'
  return new SinkError('systemic', `MongoDB refuses (code ${answer.code}): ${answer.message.replaceAll(/\s+/g, ' ')}: ${what}`, {
    cause: error,
  })
}
