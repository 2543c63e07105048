// The frame of the console: who is signed in, what this process serves, and which view the address names.

import { html, render } from 'htm/preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { ApiError, get } from './api.js'
import { Action, Problem, useLoaded } from './elements.js'
import { session } from './session.js'
import { SignIn } from './views/sign-in.js'
import { views } from './views/views.js'

/** @typedef {import('./session.js').Home} Home */

/** @returns {string[]} `#/channels/<id>/live` as `['channels', '<id>', 'live']` */
function addressed() {
  const parts = location.hash.replace(/^#\/?/, '').split('/')
  return parts.filter(part => part !== '').map(part => (/^(?:[^%]|%[0-9a-f]{2})*$/i.test(part) ? decodeURIComponent(part) : part))
}

/** The code of a sign-in link, which leaves the address at once: not in the history, nor for the next person at this screen. */
function takeCode() {
  const code = /^#\/sign-in\/(.+)$/.exec(location.hash)?.[1]
  if (code !== undefined) history.replaceState(null, '', location.pathname)
  return code
}

function Page() {
  const [code, setCode] = useState(takeCode)
  const [route, setRoute] = useState(addressed)
  const [who, setWho] = useState(session.value)
  useEffect(() => {
    const follow = () => {
      setCode(takeCode())
      setRoute(addressed())
    }
    addEventListener('hashchange', follow)
    const stop = session.onChange(() => {
      setCode(undefined)
      setWho(session.value)
    })
    return () => (removeEventListener('hashchange', follow), stop())
  }, [])
  const home = useLoaded(signal => get('.', { signal, withoutToken: true }), [])
  const { token } = who
  if (home.value === undefined) {
    return home.isLoading
      ? null
      : html`<main><${Problem} error=${home.error} /><${Action} action=${async () => home.reload()}>Try again<//></main>`
  }
  if (token === undefined || code !== undefined) return html`<${SignIn} key=${code} home=${home.value} code=${code} />`
  return html`<${SignedIn} key=${token} home=${home.value} who=${who} route=${route} />`
}

/** @param {{ home: Home, who: import('./session.js').Session, route: string[] }} props */
function SignedIn({ home, who, route }) {
  const recognised = useLoaded(signal => recognise(home, signal), [])
  const offered = views.filter(view => view.isOffered(home, who))
  const current = route.length === 0 ? offered[0] : offered.find(({ path }) => path === route[0])
  const isFirst = useRef(true)
  const address = route.join('/')
  useEffect(() => {
    document.title = `${current?.title ?? 'Not found'} · Sluice`
    // As after loading another page: the keyboard continues in the content, and screen readers start there.
    if (!isFirst.current) document.getElementById('content')?.focus()
    isFirst.current = false
  }, [address])

  if (recognised.isLoading) return null
  return html`<a class="hidden skip" href="#content" onClick=${toContent}>Skip to the content</a>
    <header class="bar">
      <a href="#/" class="brand"><img src="console/icon.svg" alt="" width="24" height="24" /> Sluice</a>
      <nav aria-label="Views">
        ${offered.map(({ path, title }) => html`<a href=${`#/${path}`} aria-current=${current?.path === path ? 'page' : undefined}>${title}</a>`)}
      </nav>
      <span class="who">${who.user?.email} <button type="button" class="plain" onClick=${() => session.endEverywhere()}>Sign out</button></span>
    </header>
    <main id="content" tabindex="-1">
      <${Problem} error=${recognised.error} />
      ${recognised.error && html`<${Action} action=${async () => recognised.reload()}>Try again<//>`}
      <h1>${current?.title ?? 'Not found'}</h1>
      ${
        current === undefined
          ? html`<p>${offered.length === 0 ? 'This process serves nothing that the console shows.' : 'There is no such page for you here.'}</p>`
          : html`<${current.view} key=${current.path} route=${route.slice(1)} home=${home} session=${who} />`
      }
    </main>
    <footer>Sluice ${home.version} · <a href="docs">API</a> · <a href="health">health</a></footer>`
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
  const { id, email } = await get('users/profile', { signal })
  // Everybody else's answer is 403.
  const isAdministrator = await get('audit', { query: { limit: 1 }, signal }).then(
    () => true,
    error => {
      if (error instanceof ApiError && error.status === 403) return false
      throw error
    },
  )
  session.recognise({ user: { id, email }, isAdministrator })
}

const root = document.getElementById('page')
if (root !== null) render(html`<${Page} />`, root)
