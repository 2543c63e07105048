// Who a store's client comes as: what the options say, completed by what the URL says.

export interface Login {
  readonly user?: string | undefined
  readonly password?: string | undefined
}

/** The options count more than the URL, and either half may stand in either place. */
export function loginOf(options: Login, inUrl: Login): Login {
  return { user: options.user ?? inUrl.user, password: options.password ?? inUrl.password }
}

/**
 * What is wrong with who comes, by the option's name.
 *
 * @param isPasswordNeeded false where a user of the URL may come by a certificate alone
 */
export function loginFaults(options: Login, inUrl: Login, isPasswordNeeded: boolean): { place: string; problem: string }[] {
  const { user, password } = loginOf(options, inUrl)
  if (password !== undefined && user === undefined) {
    return [{ place: 'store.password', problem: 'it is of no user: set store.user (SVC_STORE_USER), or name the user in the URL' }]
  }
  if (user === undefined || password !== undefined || (options.user === undefined && !isPasswordNeeded)) return []
  const place = options.user === undefined ? 'store.url' : 'store.user'
  return [{ place, problem: 'its user has no password: set store.password (SVC_STORE_PASSWORD or SVC_STORE_PASSWORD_FILE)' }]
}
