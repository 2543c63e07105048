// What ingest and readers ask of the control plane, in process or over HTTP: the only file of this folder that they import.

/** The Authorization header, taken apart. */
export interface Credential {
  readonly scheme: 'Thing' | 'Bearer'
  readonly secret: string
}

export interface AccessRequest {
  readonly credential: Credential
  readonly channel: string
  readonly action: 'publish' | 'read'
}

/**
 * The answer. `publisher` is the thing whose key was shown; null where the channel's owner reads the whole channel.
 * `owner` is the user that the thing or the channel belongs to. A refusal does not tell whether the channel exists.
 */
export type Access =
  | { readonly allowed: true; readonly publisher: string | null; readonly owner: string }
  | { readonly allowed: false; readonly reason: 'unauthenticated' | 'forbidden' }

/** Something that may end an access granted before. */
export type AccessChange =
  | { readonly kind: 'disconnected'; readonly thing: string; readonly channel: string }
  | { readonly kind: 'thing'; readonly thing: string }
  | { readonly kind: 'channel'; readonly channel: string }
  | { readonly kind: 'user'; readonly user: string }

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
}

/** The control plane cannot be asked now: answer 503, never a guess. */
export class AccessUnavailableError extends Error {
  override readonly name = 'AccessUnavailableError'
}
