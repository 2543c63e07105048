// Who is signed in. The token is in memory; in sessionStorage only if the user wants it; never in an address.

/** Another console may have another path of the same address. */
const key = `sluice.token ${location.pathname}`
const tabs = new BroadcastChannel(key)

/** @typedef {{ name: string, version: string, services: string[], links: Record<string, string> }} Home what `GET /` answers */
/** `remembered`: names of things and channels by path, and other texts of answers. @typedef {{
 *   token: string | undefined, user?: { id: string, email: string }, isAdministrator?: boolean, notice?: string | undefined, remembered: Map<string, Promise<string>>,
 * }} Session */
/**
 * @typedef {{
 *   at: number, ledger: Record<'received' | 'stored' | 'dead_lettered' | 'filtered' | 'empty' | 'lost' | 'waiting', number>,
 *   dead_letters: Record<string, number>, lag: { messages: number, seconds: number }, dependencies: { name: string, is_away: boolean }[], writer: string,
 *   mqtt_connections?: number,
 *   newest: { id: string, time: number, channel: string, publisher: string, subtopic: string, payload: string }[],
 * }} Sample
 */
/** What the platform reports each second, oldest first. @typedef {{ isOpen: boolean, error?: unknown, samples: readonly Sample[], sample: Sample | undefined }} Samples */
/** `path`: of the view; `route`: the parts of the address after it; `overview`: what the platform reports to administrators. */
/** @typedef {{ path: string, route: string[], query: Record<string, string>, home: Home, overview: Samples }} ViewProps */

/** Answers that are remembered. */
const rememberedMax = 2000

export const session = {
  /** @type {Session} */
  value: { token: sessionStorage.getItem(key) ?? undefined, remembered: new Map() },

  /** Called after each change. */
  onChange: () => {},

  /** @param {Partial<Session>} value */
  change(value) {
    session.value = { ...session.value, ...value }
    session.onChange()
  },

  /** Asks once for as long as the user is signed in. @param {string} key @param {() => Promise<string>} ask */
  remember(key, ask) {
    const { remembered } = session.value
    const answer = remembered.get(key) ?? ask()
    if (remembered.size > rememberedMax) remembered.clear()
    remembered.set(key, answer)
    return answer
  },

  /** @param {string} token of `POST /tokens`, or an API key @param {{ keep: boolean }} options `keep`: a reload of this tab stays signed in */
  start(token, { keep }) {
    session.end()
    if (keep) sessionStorage.setItem(key, token)
    session.change({ token })
  },

  /** @param {string} [notice] why, for the sign-in view */
  end(notice) {
    sessionStorage.removeItem(key)
    session.value = { token: undefined, notice, remembered: new Map() }
    session.onChange()
  },

  /** Signs out in every tab of this browser. */
  endEverywhere() {
    tabs.postMessage('end')
    session.end('You signed out.')
  },
}

tabs.addEventListener('message', () => {
  if (session.value.token !== undefined) session.end('You signed out in another tab.')
})
