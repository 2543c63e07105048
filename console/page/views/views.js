// Every view, in the order of the navigation.

import { DeadLetters } from './dead-letters.js'
import { BreakSomething } from './demo.js'
import { Channels, Things } from './entity.js'
import { Explorer } from './explorer.js'
import { Live } from './live.js'
import { Overview } from './overview.js'

/**
 * @typedef {import('../session.js').Home} Home
 * @typedef {import('../session.js').Session} Session
 * @typedef {{
 *   path: string, title: string, view: import('preact').ComponentType<import('../session.js').ViewProps>,
 *   isOffered: (home: Home, session: Session) => boolean,
 * }} View
 */

const isAdministered = (/** @type {Home} */ { services }, /** @type {Session} */ { isAdministrator }) =>
  services.includes('writer') && isAdministrator === true
const hasMessages = (/** @type {Home} */ { services }) => services.some(service => service.startsWith('reader'))
const hasEntities = (/** @type {Home} */ { services }) => services.includes('control plane')

/** @type {readonly View[]} */
export const views = [
  { path: 'overview', title: 'Overview', view: Overview, isOffered: () => true },
  { path: 'things', title: 'Things', view: Things, isOffered: hasEntities },
  { path: 'channels', title: 'Channels', view: Channels, isOffered: hasEntities },
  { path: 'live', title: 'Live', view: Live, isOffered: hasMessages },
  { path: 'explorer', title: 'Explorer', view: Explorer, isOffered: hasMessages },
  { path: 'dead-letters', title: 'Dead letters', view: DeadLetters, isOffered: isAdministered },
  {
    path: 'break',
    title: 'Break something',
    view: BreakSomething,
    isOffered: (home, session) => isAdministered(home, session) && home.links['demo'] !== undefined,
  },
]
