// What stands around each view: the views at the left, and above it the title, the state of the platform and the account.

import { html } from 'htm/preact'
import { useEffect, useState } from 'preact/hooks'
import { ApiError, get } from './api.js'
import { Choice, Copy, count, Icon, State, timeZone } from './elements.js'
import { useEvery } from './hooks.js'
import { session } from './session.js'
import { ApiKeys, ChangePassword } from './views/account.js'
import { Search } from './views/search.js'

/** @typedef {{ home: import('./session.js').Home, who: import('./session.js').Session, overview: import('./session.js').Samples }} FrameProps */
/** By name. @typedef {Record<string, boolean>} States */

const healthMs = 5000
/** Checks of `/health` that stand for what people look at, and what they are called. @type {Record<string, string>} */
const checkNames = { writer: 'writer', log: 'log', store: 'store', reader: 'store', 'control-plane': 'control plane' }
/** Of what this browser keeps. */
const foldedKey = 'sluice.folded'
const themes = { '': 'As the system', light: 'Light', dark: 'Dark' }
/** What the account opens. @type {Record<string, import('preact').ComponentType<any>>} */
const dialogs = { 'API keys': ApiKeys, 'Change password': ChangePassword }

/** @param {FrameProps & { title: string, path: string | undefined, route: unknown, views: readonly { path: string, title: string }[], children: import('./elements.js').Children }} props */
export function Frame({ home, who, overview, title, path, route, views, children }) {
  const [isFolded, setFolded] = useState(localStorage.getItem(foldedKey) === 'yes')
  const [dialog, setDialog] = useState('')
  const Opened = dialog === 'Search' ? Search : dialogs[dialog]
  useEffect(() => {
    const open = (/** @type {any} */ event) => {
      if (event.key !== '/' || event.target.closest('input, select, textarea, dialog') !== null) return
      event.preventDefault()
      setDialog('Search')
    }
    document.addEventListener('keydown', open)
    return () => document.removeEventListener('keydown', open)
  }, [])
  useEffect(() => {
    setDialog('')
    for (const opened of document.querySelectorAll(':popover-open')) /** @type {HTMLElement} */ (opened).hidePopover()
  }, [route])
  const fold = () => {
    localStorage.setItem(foldedKey, isFolded ? '' : 'yes')
    setFolded(!isFolded)
  }
  const skip = (/** @type {MouseEvent} */ event) => {
    event.preventDefault()
    document.getElementById('content')?.focus()
  }
  const open = Object.values(overview.sample?.dead_letters ?? {}).reduce((sum, open) => sum + open, 0)
  return html`<div class=${isFolded ? 'frame folded' : 'frame'}>
    <a href="#content" class="unseen" onClick=${skip}>Skip to the content</a>
    <nav id="views" class="side" popover="auto" aria-label="Views">
      <a href="#/" class="brand"><img src="console/icon.svg" alt="" width="24" height="24" /><span class="word">Sluice</span></a>
      ${views.map(
        ({ path: to, title }) => html`<a href=${`#/${to}`} title=${title} aria-current=${to === path ? 'page' : undefined}>
          <${Icon} name=${to} /><span class="word">${title}</span>
          ${to === 'dead-letters' && open > 0 && html`<span class="badge word">${count(open)}</span>`}
        </a>`,
      )}
      <button type="button" aria-expanded=${!isFolded} onClick=${fold}>
        <${Icon} name="fold" /><span class="word">${isFolded ? 'Expand' : 'Collapse'}</span>
      </button>
    </nav>
    <header class="bar"><div>
      <button type="button" class="bare opener" popovertarget="views" aria-label="Views"><${Icon} name="open" /></button>
      <h1>${title}</h1>
      <${Status} />
      <button type="button" class="bare" aria-label="Search" title="Search: /" onClick=${() => setDialog('Search')}><${Icon} name="explorer" /></button>
      <button type="button" class="bare" popovertarget="account" aria-label="Your account"><${Icon} name="account" /></button>
      <${Account} home=${home} who=${who} onOpen=${setDialog} />
    </div></header>
    <main id="content" class="content" tabindex="-1">${children}</main>
    ${Opened && html`<${Opened} home=${home} views=${views} onClose=${() => setDialog('')} />`}
  </div>`
}

/** Writer, log and store, by the health checks. */
function Status() {
  const [states, setStates] = useState(/** @type {States} */ ({}))
  useEvery(healthMs, () => void healthOf().then(setStates))
  return html`<ul class="plain row status" aria-label="State of the platform" aria-live="polite">
    ${Object.entries(states).map(
      ([name, isWell]) =>
        html`<li><${State} state=${isWell ? 'good' : 'bad'}>${name} <span class=${isWell ? 'unseen' : ''}>${isWell ? 'works' : 'away'}</span><//></li>`,
    )}
  </ul>`
}

/** @returns {Promise<States>} */
async function healthOf() {
  const answer = await get('health').catch(error => (error instanceof ApiError ? error.answer : undefined))
  /** @type {[string, { status: string }[]][]} */
  const checks = Object.entries(answer?.checks ?? {})
  if (checks.length === 0) return { server: false }
  const known = checks.filter(([name]) => name in checkNames)
  return Object.fromEntries(known.map(([name, seen]) => [checkNames[name] ?? name, seen.every(({ status }) => status !== 'fail')]))
}

/** @param {Pick<FrameProps, 'home' | 'who'> & { onOpen: (dialog: string) => void }} props */
function Account({ home, who, onOpen }) {
  const { style } = document.documentElement
  const [theme, setTheme] = useState(style.colorScheme)
  const choose = (/** @type {string} */ theme) => {
    localStorage.setItem('sluice.theme', theme)
    style.colorScheme = theme
    setTheme(theme)
  }
  return html`<section id="account" class="menu" popover="auto" aria-label="Your account">
    ${
      who.user &&
      html`<p><strong>${who.user.email}</strong></p>
        <p class="actions"><code>${who.user.id}</code> <${Copy} text=${who.user.id} label="Copy your id" /></p>
        ${Object.keys(dialogs).map(name => html`<button type="button" onClick=${() => onOpen(name)}>${name}</button>`)}`
    }
    <${Choice} label="Theme" value=${theme} options=${Object.keys(themes)} titles=${Object.values(themes)} onChange=${choose} />
    <button type="button" onClick=${() => session.endEverywhere()}>Sign out</button>
    <p class="quiet small">Times are of the zone ${timeZone}.</p>
    <p class="quiet small">Sluice ${home.version} · <a href="docs">API</a> · <a href="health">health</a></p>
  </section>`
}
