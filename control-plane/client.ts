// The access control that ingest and readers use, in process or over HTTP (remote/): the only file of this folder that they import.

import type { X509Certificate } from 'node:crypto'
import { Type } from 'typebox'
import { HttpError } from '../http/errors.ts'
import { canonicalId } from '../transformers/uuid.ts'
import { exampleIds, idSchema, isId } from './ids.ts'

export { exampleIds } from './ids.ts'

/** The parsed Authorization header, or what was proven in another way. */
export interface Credential {
  readonly scheme: 'Thing' | 'Bearer' | 'Certificate' | 'ThingId'
  /**
   * For a certificate its serial and SHA-256 fingerprint, in lower-case hex: `5f0c…:9b2d…`. For `ThingId` the id of a thing, whose key a trusted broker has
   * checked: no client sends it.
   */
  readonly secret: string
}

export interface AccessRequest {
  readonly credential: Credential
  readonly channel: string
  readonly action: 'publish' | 'read'
  /** The client's address. Unknown keys are counted per address, and one that is tried again and again gets `limited`. Without an address nothing is counted. */
  readonly address?: string
}

/**
 * The answer. `publisher` is the thing whose key was sent, or the API key that may publish; null if the channel's owner reads the whole channel.
 * `owner` is the user that the thing or the channel belongs to; `isBounded` says of a publisher that its owner registered themselves and has bounds.
 * `endsMs` is when the credential itself expires, in milliseconds since 1970; a thing's key has it once it was replaced. A refusal does not reveal
 * whether the channel exists; of the valid key of a thing it says whose it is.
 */
export type Access =
  | {
      readonly allowed: true
      readonly publisher: string | null
      readonly owner: string
      readonly isBounded?: boolean
      readonly endsMs?: number
    }
  | { readonly allowed: false; readonly reason: 'unauthenticated' }
  | {
      readonly allowed: false
      readonly reason: 'forbidden'
      readonly publisher?: string
      readonly owner?: string
      readonly isBounded?: boolean
      readonly endsMs?: number
    }
  | LimitedAccess

/** The key is invalid and was sent too often from this address: it may be tried again after `leftMs`. */
export interface LimitedAccess {
  readonly allowed: false
  readonly reason: 'limited'
  readonly leftMs: number
}

/** Something that may end an access granted before. `unheard`: changes were missed, so any access may have ended. */
export type AccessChange =
  | { readonly kind: 'unheard' }
  | { readonly kind: 'disconnected'; readonly thing: string; readonly channel: string }
  | { readonly kind: 'thing'; readonly thing: string }
  | { readonly kind: 'channel'; readonly channel: string }
  | { readonly kind: 'user'; readonly user: string }

/** Whether the change may end such a grant. */
export function concerns(
  change: AccessChange,
  { publisher, owner, channel }: { readonly publisher: string | null; readonly owner: string; readonly channel: string },
): boolean {
  if (change.kind === 'unheard') return true
  if (change.kind === 'disconnected') return publisher === change.thing && channel === change.channel
  if (change.kind === 'thing') return publisher === change.thing
  if (change.kind === 'channel') return channel === change.channel
  return owner === change.user
}

/** Of one request: the bytes of an answer are bounded. */
export const deletedChannelsMax = 400

export interface AccessControl {
  /**
   * A thing may publish to and read from the channels it is connected to; a user may read the channels that they own, and with an API key
   * publish to them, as far as its scope goes. A channel that no user has or had, as producers of a topic may choose its id, is read by administrators.
   *
   * @throws AccessUnavailableError while access can be neither granted nor refused
   */
  authorize(request: AccessRequest): Promise<Access>
  /** The answer of `authorize` if it is in memory, so that a frequent caller need not wait. Absent without a cache. */
  granted?(request: AccessRequest): Access | undefined
  /**
   * Those of these channels that were deleted.
   *
   * @param channels at most `deletedChannelsMax`
   * @throws AccessUnavailableError
   */
  deletedChannels(channels: readonly string[]): Promise<string[]>
  /** Calls `listener` before the operation that caused the change is answered. @returns a function that removes the listener */
  onChange(listener: (change: AccessChange) => void): () => void
  /**
   * The time up to which the listeners have been called for every change, by `performance.now()`. It stands still while changes may be
   * missed. Absent in process, where none can be.
   */
  heardMs?(): number
}

const limitedKey = 'unknown thing key from this address: use the key returned when the thing was created'
const limited = {
  Thing: limitedKey,
  ThingId: limitedKey,
  Certificate: 'invalid certificate from this address: get another one with POST /certs',
  Bearer: 'invalid API key from this address: issue another one with POST /keys',
}

/** The error for a client with such a key or certificate. */
export function limitedError({ leftMs }: Pick<LimitedAccess, 'leftMs'>, scheme: Credential['scheme']): HttpError {
  const detail = `too many attempts with this ${limited[scheme]}`
  return new HttpError('too_many_requests', detail, { retryAfterSeconds: Math.ceil(leftMs / 1000) })
}

/** Makes the value of an API key recognisable where it must not be: in logs, files and repositories. */
export const apiKeyPrefix = 'sluice_'
export const isApiKey = (credential: string): boolean => credential.startsWith(apiKeyPrefix)

/** The credential for a certificate. The caller has checked that the client holds its key. */
export function certificateCredential({ serialNumber, fingerprint256 }: X509Certificate): Credential {
  return { scheme: 'Certificate', secret: `${serialNumber}:${fingerprint256.replaceAll(':', '')}`.toLowerCase() }
}

/** The control plane is unavailable: answer 503, and neither grant nor refuse. */
export class AccessUnavailableError extends Error {
  override readonly name: string = 'AccessUnavailableError'
}

/** The id of no channel: no row and no channel has it. In place of an invalid id, it lets the request check only the credential. */
export const noChannel = ''

/** The channel in a path. */
export const channelParameter = idSchema('channel', "The channel's id.")

/** The thing in a path. */
export const thingParameter = idSchema('thing', "The thing's id.")

/** A channel's id in the form in which it is stored and compared, lower case; undefined if the text is not an id. */
export function parseChannel(text: string): string | undefined {
  return isId(text) ? text.toLowerCase() : undefined
}

/** Of the id of a channel or a publisher that a row has; the pipeline allows as many bytes. */
export const storedIdLengthMax = 2048
const storedChannelPattern = '^[^\\u0000]+$'

/** The channel in a path of a reader: any text that a row can have. */
export const storedChannelParameter = Type.String({
  minLength: 1,
  maxLength: storedIdLengthMax,
  pattern: storedChannelPattern,
  allowed: `text of 1 to ${storedIdLengthMax} characters without a NUL`,
  description: "The channel's id. Percent-encode one that is not a UUID.",
  examples: [exampleIds.channel],
})

/** The id of a channel that may have rows, in the form in which they have it. undefined for a text that no row has. */
export function parseStoredChannel(text: string): string | undefined {
  return text.length <= storedIdLengthMax && new RegExp(storedChannelPattern).test(text) ? canonicalId(text) : undefined
}

/**
 * Parses an Authorization header (RFC 9110 §11.4; the scheme's case does not matter). Undefined if it is missing,
 * has another scheme, or has anything but one token after the scheme.
 */
export function parseCredential(header: string | undefined): Credential | undefined {
  const match = header === undefined ? null : /^(thing|bearer) +([^\s,]+) *$/i.exec(header)
  if (match === null) return undefined
  const scheme = match[1]?.length === 5 ? 'Thing' : 'Bearer'
  return { scheme, secret: match[2] as string }
}
