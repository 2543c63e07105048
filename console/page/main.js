// The frame of the console: who is signed in, what this process serves, and which view the address names.

import { html, render } from 'htm/preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { ApiError, get, send } from './api.js'
import { Action, Field, Problem } from './elements.js'
import { Frame } from './frame.js'
import { onSubmit, useAction, useLoaded } from './hooks.js'
import { session } from './session.js'
import { DeadLetters } from './views/dead-letters.js'
import { Entities } from './views/entities.js'
import { Explorer } from './views/explorer.js'
import { Fleet } from './views/fleet.js'
import { Live } from './views/live.js'
import { BreakSomething, Overview, useSamples } from './views/overview.js'

/** @import { Home, ViewProps } from './session.js' */
/** `needs`: a service of this process, of which the writer's is for administrators; `link`: one of the home page. */
/** @typedef {{ path: string, title: string, view: import('preact').ComponentType<ViewProps>, needs: string, link?: string }} View */

/** In the order of the navigation. @type {readonly View[]} */
const views = [
  { path: 'overview', title: 'Overview', view: Overview, needs: 'writer', link: 'overview' },
  { path: 'things', title: 'Things', view: Entities, needs: 'control plane' },
  { path: 'channels', title: 'Channels', view: Entities, needs: 'control plane' },
  { path: 'fleet', title: 'Fleet', view: Fleet, needs: 'reader' },
  { path: 'live', title: 'Live', view: Live, needs: 'reader' },
  { path: 'explorer', title: 'Explorer', view: Explorer, needs: 'reader' },
  { path: 'dead-letters', title: 'Dead letters', view: DeadLetters, needs: 'writer' },
  { path: 'break', title: 'Break something', view: BreakSomething, needs: 'writer', link: 'demo' },
]

/** As in index.html, until it is known what to show. */
const shell = html`<main class="narrow"><h1 class="actions"><img src="console/icon.svg" alt="" width="32" height="32" /> Sluice</h1></main>`

/** `#/live/<id>?name=speed` as `['live', '<id>']` and `{ name: 'speed' }`. @typedef {{ parts: string[], query: Record<string, string> }} Route */

/** @returns {Route} */
function addressed() {
  const [path = '', search] = location.hash.split('?')
  return { parts: [...(path.match(/[^#/]+/g) ?? [])], query: Object.fromEntries(new URLSearchParams(search)) }
}

/** The code of a sign-in link, which leaves the address at once: not in the history, nor for the next person at this screen. */
function takeCode() {
  const [view, code, next] = addressed().parts
  if (view !== 'sign-in') return undefined
  history.replaceState(null, '', next === undefined ? location.pathname : `#/${next}`)
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
  if (home.value === undefined) return shell
  if (who.token === undefined || code !== undefined) return html`<${SignIn} key=${code} home=${home.value} code=${code} />`
  return html`<${SignedIn} key=${who.token} home=${home.value} who=${who} route=${route} />`
}

/** @param {{ home: Home, who: import('./session.js').Session, route: Route }} props */
function SignedIn({ home, who, route }) {
  const recognised = useLoaded(signal => recognise(home, signal), [])
  const isServed = (/** @type {View} */ { needs }) => home.services.some(service => service.startsWith(needs))
  const isAllowed = (/** @type {View} */ { needs }) => needs !== 'writer' || who.isAdministrator
  const offered = views.filter(view => isServed(view) && isAllowed(view) && (view.link === undefined || view.link in home.links))
  const overview = useSamples(offered[0]?.link === 'overview' ? home : undefined)
  const [path = offered[0]?.path, ...rest] = route.parts
  const current = offered.find(view => view.path === path)
  const isFirst = useRef(true)
  const title = current?.title ?? 'Not found'
  document.title = `${title} · Sluice`
  useEffect(() => {
    // As after loading another page: the keyboard continues in the content, and screen readers start there.
    if (!isFirst.current) {
      scrollTo(0, 0)
      document.getElementById('content')?.focus({ preventScroll: true })
    }
    isFirst.current = false
  }, [route])

  if (recognised.isLoading) return shell
  const none = html`<p>There is no such page for you here.</p>`
  return html`<${Frame} home=${home} who=${who} overview=${overview} title=${title} path=${path} route=${route} views=${offered}>
    <${Failure} loaded=${recognised} />
    ${current ? html`<${current.view} key=${path} path=${path} route=${rest} query=${route.query} home=${home} overview=${overview} />` : none}
  <//>`
}

/** @param {{ loaded: ReturnType<typeof useLoaded> }} props */
function Failure({ loaded: { error, reload } }) {
  return error ? html`<${Problem} error=${error} /><${Action} action=${async () => reload()}>Try again<//>` : null
}

/** Asks who the token belongs to; where users are not served, the token is used as it is. @param {Home} home @param {AbortSignal} signal */
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

/** With email and password, with a token, or with the link of a first start. @param {{ home: Home, code: string | undefined }} props `code`: of a sign-in link */
function SignIn({ home, code }) {
  const hasUsers = home.services.includes('control plane')
  const { run, isBusy, error } = useAction(async (/** @type {string} */ path, /** @type {object} */ body, /** @type {boolean} */ keep) => {
    const { token } = await (await send('POST', path, { body, withoutToken: true })).json()
    session.start(token, { keep })
  })
  useEffect(() => {
    document.title = 'Sign in · Sluice'
    if (code !== undefined) void run('console/sign-in', { code }, false)
  }, [])

  const submit = onSubmit(({ token, keep, email, password }) => {
    if (hasUsers) void run('tokens', { email, password }, keep !== undefined)
    else session.start(token ?? '', { keep: keep !== undefined })
  })

  const fields = hasUsers
    ? html`<${Field} label="Email"><input name="email" type="email" autocomplete="username" required autofocus /><//>
        <${Field} label="Password"><input name="password" type="password" autocomplete="current-password" required /><//>`
    : html`<${Field} label="Token or API key" hint="This process serves no users: take a token of POST /tokens, or an API key.">
        <input name="token" type="password" autocomplete="off" required autofocus />
      <//>`
  return html`<main class="narrow">
    <h1 class="actions"><img src="console/icon.svg" alt="" width="32" height="32" /> Sluice</h1>
    ${session.value.notice && html`<p class="notice" role="status">${session.value.notice}</p>`}
    <form class="card" onSubmit=${submit}>
      <h2>Sign in</h2>
      ${fields}
      <p><label class="small"><input name="keep" type="checkbox" /> Stay signed in while this tab is open, also after a reload</label></p>
      <${Problem} error=${error} />
      <button class="main" disabled=${isBusy} aria-busy=${isBusy}>Sign in</button>
    </form>
    ${session.value.token !== undefined && html`<p><a href="#/">Stay signed in as you are</a></p>`}
    <p class="quiet small">Sluice ${home.version} · <a href="docs">API</a> · <a href="health">health</a></p>
  </main>`
}

render(html`<${Page} />`, /** @type {HTMLElement} */ (document.getElementById('page')))
