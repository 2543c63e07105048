// Who is signed in. The token is in memory; in sessionStorage only if the user wants it; never in an address.

const key = 'sluice.token'
const tabs = new BroadcastChannel('sluice')

/** @typedef {{ name: string, version: string, services: string[], links: Record<string, string> }} Home what `GET /` answers */
/** @typedef {{ route: string[], home: Home, session: Session }} ViewProps `route`: the parts of the address after the view's own */
/**
 * @typedef {{ token: string | undefined, user?: { id: string, email: string }, isAdministrator?: boolean, notice?: string | undefined }} Session
 */

/** @type {Set<() => void>} */
const listeners = new Set()

/** @param {Session} value */
function change(value) {
  session.value = value
  for (const listener of listeners) listener()
}

export const session = {
  /** @type {Session} */
  value: { token: sessionStorage.getItem(key) ?? undefined },

  /**
   * @param {string} token of `POST /tokens`, or an API key
   * @param {{ keep: boolean }} options `keep`: a reload of this tab stays signed in
   */
  start(token, { keep }) {
    if (keep) sessionStorage.setItem(key, token)
    else sessionStorage.removeItem(key)
    change({ token })
  },

  /** @param {Pick<Session, 'user' | 'isAdministrator'>} who */
  recognise(who) {
    change({ ...session.value, ...who })
  },

  /** @param {string} [notice] why, for the sign-in view */
  end(notice) {
    sessionStorage.removeItem(key)
    change({ token: undefined, notice })
  },

  /** Signs out in every tab of this browser. */
  endEverywhere() {
    tabs.postMessage('end')
    session.end('You signed out.')
  },

  /**
   * @param {() => void} listener
   * @returns {() => void} stops it
   */
  onChange(listener) {
    listeners.add(listener)
    return () => listeners.delete(listener)
  },
}

tabs.addEventListener('message', () => {
  if (session.value.token !== undefined) session.end('You signed out in another tab.')
})
