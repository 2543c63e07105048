// The frame of the console: who is signed in, what this process serves, and which view the address names.

import { html, render } from 'htm/preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { ApiError, get } from './api.js'
import { Action, Copy, Problem } from './elements.js'
import { useLoaded } from './hooks.js'
import { session } from './session.js'
import { DeadLetters } from './views/dead-letters.js'
import { BreakSomething } from './views/demo.js'
import { Entities } from './views/entity.js'
import { Explorer } from './views/explorer.js'
import { Live } from './views/live.js'
import { Overview } from './views/overview.js'
import { ChangePassword } from './views/password.js'
import { SignIn } from './views/sign-in.js'

/** @typedef {import('./session.js').Home} Home */
/**
 * `needs`: a service of this process, of which the writer's is for administrators; `link`: one of the home page.
 *
 * @typedef {{ path: string, title: string, view: import('preact').ComponentType<ViewProps>, needs: string, link?: string }} View
 */
/** @typedef {import('./session.js').ViewProps} ViewProps */

/** In the order of the navigation. @type {readonly View[]} */
const views = [
  { path: 'overview', title: 'Overview', view: Overview, needs: 'writer', link: 'overview' },
  { path: 'things', title: 'Things', view: Entities, needs: 'control plane' },
  { path: 'channels', title: 'Channels', view: Entities, needs: 'control plane' },
  { path: 'live', title: 'Live', view: Live, needs: 'reader' },
  { path: 'explorer', title: 'Explorer', view: Explorer, needs: 'reader' },
  { path: 'dead-letters', title: 'Dead letters', view: DeadLetters, needs: 'writer' },
  { path: 'break', title: 'Break something', view: BreakSomething, needs: 'writer', link: 'demo' },
]

/** `#/channels/<id>` as `['channels', '<id>']` */
const addressed = () => [...(location.hash.match(/[^#/]+/g) ?? [])]

/** The code of a sign-in link, which leaves the address at once: not in the history, nor for the next person at this screen. */
function takeCode() {
  const [view, code] = addressed()
  if (view !== 'sign-in') return undefined
  history.replaceState(null, '', location.pathname)
  return code
}

function Page() {
  const [code, setCode] = useState(takeCode)
  const [route, setRoute] = useState(addressed)
  const [who, setWho] = useState(session.value)
  useEffect(() => {
    addEventListener('hashchange', () => {
      setCode(takeCode())
      setRoute(addressed())
    })
    session.onChange = () => {
      setCode(undefined)
      setWho(session.value)
    }
  }, [])
  const home = useLoaded(signal => get('.', { signal }), [])
  if (home.error) return html`<main><${Failure} loaded=${home} /></main>`
  if (home.value === undefined) return null
  if (who.token === undefined || code !== undefined) return html`<${SignIn} key=${code} home=${home.value} code=${code} />`
  return html`<${SignedIn} key=${who.token} home=${home.value} who=${who} route=${route} />`
}

/** @param {{ home: Home, who: import('./session.js').Session, route: string[] }} props */
function SignedIn({ home, who, route }) {
  const recognised = useLoaded(signal => recognise(home, signal), [])
  const isServed = (/** @type {View} */ { needs }) => home.services.some(service => service.startsWith(needs))
  const isAllowed = (/** @type {View} */ { needs }) => needs !== 'writer' || who.isAdministrator
  const offered = views.filter(view => isServed(view) && isAllowed(view) && (view.link === undefined || view.link in home.links))
  const [isChangingPassword, setChangingPassword] = useState(false)
  const [path = offered[0]?.path, ...rest] = route
  const current = offered.find(view => view.path === path)
  const isFirst = useRef(true)
  const title = current?.title ?? 'Not found'
  useEffect(() => {
    document.title = `${title} · Sluice`
  }, [title])
  useEffect(() => {
    // As after loading another page: the keyboard continues in the content, and screen readers start there.
    if (!isFirst.current) document.getElementById('content')?.focus()
    isFirst.current = false
  }, [route])

  if (recognised.isLoading) return null
  return html`<header class="row bar">
      <a href="#content" class="skip" onClick=${toContent}>Skip to the content</a>
      <a href="#/" class="row"><img src="console/icon.svg" alt="" width="24" height="24" /> Sluice</a>
      <nav class="row" aria-label="Views">
        ${offered.map(({ path, title }) => html`<a href=${`#/${path}`} aria-current=${current?.path === path ? 'page' : undefined}>${title}</a>`)}
      </nav>
      ${
        who.user &&
        html`<span>${who.user.email} <${Copy} text=${who.user.id} label="Copy your id" /></span>
          <button type="button" onClick=${() => setChangingPassword(true)}>Change password</button>`
      }
      <button type="button" onClick=${() => session.endEverywhere()}>Sign out</button>
    </header>
    <main id="content" tabindex="-1">
      <${Failure} loaded=${recognised} />
      <h1>${title}</h1>
      ${
        current
          ? html`<${current.view} key=${path} path=${path} route=${rest} home=${home} session=${who} />`
          : html`<p>There is no such page for you here.</p>`
      }
    </main>
    <footer class="quiet">Sluice ${home.version} · <a href="docs">API</a> · <a href="health">health</a></footer>
    ${isChangingPassword && html`<${ChangePassword} onClose=${() => setChangingPassword(false)} />`}`
}

/** @param {{ loaded: ReturnType<typeof useLoaded> }} props */
function Failure({ loaded: { error, reload } }) {
  return error ? html`<${Problem} error=${error} /><${Action} action=${async () => reload()}>Try again<//>` : null
}

/** @param {MouseEvent} event */
function toContent(event) {
  event.preventDefault()
  document.getElementById('content')?.focus()
}

/**
 * Asks who the token belongs to; where users are not served, the token is used as it is.
 *
 * @param {Home} home
 * @param {AbortSignal} signal
 */
async function recognise({ services }, signal) {
  if (!services.includes('control plane')) return
  const user = await get('users/profile', { signal })
  const isAdministrator = await get('audit', { query: { limit: 1 }, signal }).then(
    () => true,
    error => {
      if (error instanceof ApiError && error.status === 403) return false
      throw error
    },
  )
  session.change({ user, isAdministrator })
}

render(html`<${Page} />`, /** @type {HTMLElement} */ (document.getElementById('page')))
