// What stands around each view: the views at the left, and above it the title, the state of the platform and the account.

import { html } from 'htm/preact'
import { useEffect, useState } from 'preact/hooks'
import { ApiError, get } from './api.js'
import { Choice, Copy, count, Icon, State, timeZone } from './elements.js'
import { session } from './session.js'
import { ApiKeys, ChangePassword } from './views/account.js'

/** @typedef {import('./session.js').Sample} Sample */
/** @typedef {{ home: import('./session.js').Home, who: import('./session.js').Session, overview: import('./session.js').Samples }} FrameProps */
/** By name; undefined: not known at the moment. @typedef {Record<string, boolean | undefined>} States */

const healthMs = 10_000
/** Checks of `/health` that stand for what people look at, and what they are called. */
const checkNames = { writer: 'writer', log: 'log', store: 'store', reader: 'store', 'control-plane': 'control plane' }
/** Of what this browser keeps. */
const foldedKey = 'sluice.folded'
const themeKey = 'sluice.theme'
const themes = ['', 'light', 'dark']
const themeNames = ['As the system', 'Light', 'Dark']
/** What the account opens. @type {Record<string, import('preact').ComponentType<{ onClose: () => void }>>} */
const dialogs = { 'API keys': ApiKeys, 'Change password': ChangePassword }

/**
 * @param {FrameProps & {
 *   title: string, path: string | undefined, route: unknown, views: readonly { path: string, title: string }[], children: import('./elements.js').Children,
 * }} props
 */
export function Frame({ home, who, overview, title, path, route, views, children }) {
  const [isFolded, setFolded] = useState(localStorage.getItem(foldedKey) !== null)
  const [dialog, setDialog] = useState('')
  const Opened = dialogs[dialog]
  useEffect(() => {
    setDialog('')
    for (const opened of document.querySelectorAll(':popover-open')) /** @type {HTMLElement} */ (opened).hidePopover()
  }, [route])
  const fold = () => {
    if (isFolded) localStorage.removeItem(foldedKey)
    else localStorage.setItem(foldedKey, 'yes')
    setFolded(!isFolded)
  }
  const open = Object.values(overview.sample?.dead_letters ?? {}).reduce((sum, open) => sum + open, 0)
  return html`<div class=${isFolded ? 'frame folded' : 'frame'}>
    <a href="#content" class="unseen" onClick=${toContent}>Skip to the content</a>
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
      <${Status} overview=${overview} />
      <button type="button" class="bare" popovertarget="account" aria-label="Your account"><${Icon} name="account" /></button>
      <${Account} home=${home} who=${who} onOpen=${setDialog} />
    </div></header>
    <main id="content" class="content" tabindex="-1">${children}</main>
    ${Opened && html`<${Opened} onClose=${() => setDialog('')} />`}
  </div>`
}

/** @param {MouseEvent} event */
function toContent(event) {
  event.preventDefault()
  document.getElementById('content')?.focus()
}

/** Writer, log and store: each second for administrators, for others by the health checks. @param {Pick<FrameProps, 'overview'>} props */
function Status({ overview: { sample, isOpen } }) {
  const [health, setHealth] = useState(/** @type {States} */ ({}))
  const isSampled = sample !== undefined
  useEffect(() => {
    if (isSampled) return undefined
    const look = () => !document.hidden && healthOf().then(setHealth)
    const timer = setInterval(look, healthMs)
    void look()
    return () => clearInterval(timer)
  }, [isSampled])
  const states = sample === undefined ? health : statesOf(sample, isOpen)
  return html`<ul class="plain status" aria-label="State of the platform" aria-live="polite">
    ${Object.entries(states).map(([name, isWell]) => {
      const state = isWell === undefined ? 'waiting' : isWell ? 'good' : 'bad'
      const word = { good: 'works', waiting: 'unknown', bad: 'away' }[state]
      return html`<li><${State} state=${state}>${name} <span class=${isWell === false ? '' : 'unseen'}>${word}</span><//></li>`
    })}
  </ul>`
}

/** @param {Sample} sample @param {boolean} isOpen whether it is of now @returns {States} */
function statesOf({ writer, dependencies }, isOpen) {
  const isThere = (/** @type {string} */ asked) => !dependencies.some(({ name, is_away: isAway }) => name === asked && isAway)
  const states = { writer: writer === 'running', log: isThere('log'), store: isThere('store') }
  return isOpen ? states : { writer: undefined, log: undefined, store: undefined }
}

/** @returns {Promise<States>} */
async function healthOf() {
  const answer = await get('health').catch(error => (error instanceof ApiError ? error.answer : undefined))
  /** @type {[string, { status: string }[]][]} */
  const checks = Object.entries(answer?.checks ?? {})
  if (checks.length === 0) return { server: false }
  const known = checks.filter(([name]) => name in checkNames)
  return Object.fromEntries(
    known.map(([name, seen]) => [checkNames[/** @type {keyof typeof checkNames} */ (name)], seen.every(({ status }) => status !== 'fail')]),
  )
}

/** @param {Pick<FrameProps, 'home' | 'who'> & { onOpen: (dialog: string) => void }} props */
function Account({ home, who, onOpen }) {
  const { style } = document.documentElement
  const [theme, setTheme] = useState(style.colorScheme)
  const choose = (/** @type {string} */ theme) => {
    localStorage.setItem(themeKey, theme)
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
    <${Choice} label="Theme" value=${theme} options=${themes} titles=${themeNames} onChange=${choose} />
    <button type="button" onClick=${() => session.endEverywhere()}>Sign out</button>
    <p class="quiet small">Times are of the zone ${timeZone}.</p>
    <p class="quiet small">Sluice ${home.version} · <a href="docs">API</a> · <a href="health">health</a></p>
  </section>`
}
