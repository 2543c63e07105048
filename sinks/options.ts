// Options that sinks share: limits of formats, and the user and password of a store's client, completed by its URL.

import { type TInteger, Type } from 'typebox'

/** The options of every sink that limit its number of formats. */
export const formatOptions: { readonly formatsMax: TInteger; readonly formatsPerChannelMax: TInteger } = {
  formatsMax: Type.Integer({
    default: 1000,
    minimum: 1,
    maximum: 100_000,
    description: 'Most JSON formats in the store, each a table; a further one is a dead letter (`format-limit`).',
  }),
  formatsPerChannelMax: Type.Integer({
    default: 32,
    minimum: 1,
    maximum: 100_000,
    description: 'Most JSON formats that one channel may add.',
  }),
}

export interface Login {
  readonly user?: string | undefined
  readonly password?: string | undefined
}

/** Options take precedence over the URL; the user may be in one and the password in the other. */
export function loginOf(options: Login, inUrl: Login): Login {
  return { user: options.user ?? inUrl.user, password: options.password ?? inUrl.password }
}

/**
 * Lists what is wrong with the user and password, by the option's name.
 *
 * @param isPasswordNeeded false where a user in the URL may log in with a certificate alone
 */
export function loginFaults(options: Login, inUrl: Login, isPasswordNeeded: boolean): { place: string; problem: string }[] {
  const { user, password } = loginOf(options, inUrl)
  if (password !== undefined && user === undefined) {
    return [{ place: 'store.password', problem: 'it has no user: set store.user (SVC_STORE_USER), or name the user in the URL' }]
  }
  if (user === undefined || password !== undefined || (options.user === undefined && !isPasswordNeeded)) return []
  const place = options.user === undefined ? 'store.url' : 'store.user'
  return [{ place, problem: 'its user has no password: set store.password (SVC_STORE_PASSWORD or SVC_STORE_PASSWORD_FILE)' }]
}
