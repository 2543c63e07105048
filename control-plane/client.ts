// What ingest and readers ask of the control plane, in process or over HTTP (remote/): the only file of this folder that they import.

import type { X509Certificate } from 'node:crypto'
import { HttpError } from '../config/http/errors.ts'
import { idSchema, isId } from './ids.ts'

export { exampleIds } from './ids.ts'

/** The Authorization header, taken apart, or a certificate that the client has proven to hold the key of. */
export interface Credential {
  readonly scheme: 'Thing' | 'Bearer' | 'Certificate'
  /** Of a certificate its serial and SHA-256 fingerprint, in lower-case hex: `5f0c…:9b2d…`. */
  readonly secret: string
}

export interface AccessRequest {
  readonly credential: Credential
  readonly channel: string
  readonly action: 'publish' | 'read'
  /** The client's. A key that no thing has is counted per address, so that trying one over and over is answered `limited`; left out, nothing is counted. */
  readonly address?: string
}

/**
 * The answer. `publisher` is the thing whose key was shown; null where the channel's owner reads the whole channel.
 * `owner` is the user that the thing or the channel belongs to. `endsMs` is the instant at which the credential itself ends, in
 * milliseconds since 1970; a thing's key has one once it was replaced. A refusal does not tell whether the channel exists.
 */
export type Access =
  | { readonly allowed: true; readonly publisher: string | null; readonly owner: string; readonly endsMs?: number }
  | { readonly allowed: false; readonly reason: 'unauthenticated' | 'forbidden' }
  | LimitedAccess

/** The key is none, and was shown too often from this address: to be tried again after `leftMs`. */
export interface LimitedAccess {
  readonly allowed: false
  readonly reason: 'limited'
  readonly leftMs: number
}

/** Something that may end an access granted before; `unheard`: changes were missed, so it may be any. */
export type AccessChange =
  | { readonly kind: 'unheard' }
  | { readonly kind: 'disconnected'; readonly thing: string; readonly channel: string }
  | { readonly kind: 'thing'; readonly thing: string }
  | { readonly kind: 'channel'; readonly channel: string }
  | { readonly kind: 'user'; readonly user: string }

/** Whether the change may end what was granted so. */
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

export interface AccessControl {
  /**
   * A thing may publish to and read from the channels it is connected to; a user may read the channels that they own and
   * publish to none.
   *
   * @throws AccessUnavailableError when it cannot be known now
   */
  authorize(request: AccessRequest): Promise<Access>
  /** Calls `listener` before the operation that caused the change is answered. Returns the way to stop. */
  onChange(listener: (change: AccessChange) => void): () => void
  /**
   * Up to when the listeners have heard of every change, by the clock of `performance.now()`. It stands still while changes may go
   * unheard. Left out where none can, in process.
   */
  heardMs?(): number
}

/** What the client with such a key or certificate is answered. */
export function limitedError({ leftMs }: LimitedAccess, scheme: Credential['scheme'] = 'Thing'): HttpError {
  const detail =
    scheme === 'Certificate'
      ? 'this certificate is not valid, and was shown too often from this address: get another one with POST /certs'
      : 'this unknown thing key was shown too often from this address: use the key returned when the thing was created'
  return new HttpError('too_many_requests', detail, { retryAfterSeconds: Math.ceil(leftMs / 1000) })
}

/** A certificate as a credential. The caller has checked that the client holds its key. */
export function certificateCredential({ serialNumber, fingerprint256 }: X509Certificate): Credential {
  return { scheme: 'Certificate', secret: `${serialNumber}:${fingerprint256.replaceAll(':', '')}`.toLowerCase() }
}

/** The control plane cannot be asked now: answer 503, never a guess. */
export class AccessUnavailableError extends Error {
  override readonly name: string = 'AccessUnavailableError'
}

/** A channel that is never made. Asked for in place of an id that is none, it tells only whether the credential is good. */
export const noChannel = '00000000-0000-0000-0000-000000000000'

/** The channel in a path. */
export const channelParameter = idSchema('channel', "The channel's id.")

/** A channel's id in the form in which it is stored and compared, lower case; undefined for what is no id. */
export function parseChannel(text: string): string | undefined {
  return isId(text) ? text.toLowerCase() : undefined
}

/**
 * Takes an Authorization header apart (RFC 9110 §11.4; the scheme's case does not matter). Undefined where it is missing,
 * of another scheme, or not one token after the scheme.
 */
export function parseCredential(header: string | undefined): Credential | undefined {
  const match = header === undefined ? null : /^(thing|bearer) +([^\s,]+) *$/i.exec(header)
  if (match === null) return undefined
  const scheme = match[1]?.length === 5 ? 'Thing' : 'Bearer'
  return { scheme, secret: match[2] as string }
}
