// What stands around each view: the views at the left, and above it the title, the state of the platform, the account and the search.

import { get, send } from './api.js'
import { Action, Choice, Copy, count, Dialog, Field, Icon, Named, Problem, State, Table, timeOf, timeZone } from './elements.js'
import { html, onSubmit, onText, useAction, useEffect, useEvery, useLayoutEffect, useLoaded, useState } from './hooks.js'
import { session } from './session.js'
import { openLetters, titleOf } from './views/list.js'

/** @typedef {{ home: import('./session.js').Home, who: import('./session.js').Session, overview: import('./session.js').Samples }} FrameProps */
/** @import { Entity } from './views/list.js' */

const healthMs = 5000
/** Checks of `/health` that stand for what people look at, and what they are called. @type {Record<string, string>} */
const checkNames = { server: 'server', writer: 'writer', log: 'log', store: 'store', reader: 'store', 'control-plane': 'control plane' }
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
  const link = (/** @type {{ path: string, title: string }} */ { path: to, title }) =>
    html`<a href=${`#/${to}`} title=${title} aria-current=${to === path ? 'page' : undefined}>
      <${Icon} name=${to} /><span class="word">${title}</span>
      ${to === 'dead-letters' && open > 0 && html`<span class="badge word">${count(open)}</span>`}
    </a>`
  return html`<div class=${isFolded ? 'frame folded' : 'frame'}>
    <a href="#content" class="unseen" onClick=${skip}>Skip to the content</a>
    <nav id="views" class="side" popover="auto" aria-label="Views">
      <a href="#/" class="brand"><img src="console/icon.svg" alt="" width="24" height="24" /><span class="word">Sluice</span></a>
      ${views.map(link)}
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
  const [states, setStates] = useState(/** @type {Record<string, boolean>} */ ({}))
  useEvery(healthMs, () => void healthOf().then(setStates))
  const well = (/** @type {string} */ name) => html`<${State} state="good">${name} <span class="unseen">works</span><//>`
  return html`<ul class="plain row status" aria-label="State of the platform" aria-live="polite">
    ${Object.entries(states).map(([name, isWell]) => html`<li>${isWell ? well(name) : html`<${State} state="bad">${name} away<//>`}</li>`)}
  </ul>`
}

/** @returns {Promise<Record<string, boolean>>} */
async function healthOf() {
  const answer = await get('health').catch(error => error.answer)
  /** @type {[string, { status: string }[]][]} */
  const checks = Object.entries(answer?.checks ?? { server: [{ status: 'fail' }] })
  const known = checks.filter(([name]) => name in checkNames)
  return Object.fromEntries(known.map(([name, seen]) => [checkNames[name] ?? name, seen.every(({ status }) => status !== 'fail')]))
}

/** @param {Pick<FrameProps, 'home' | 'who'> & { onOpen: (dialog: string) => void }} props */
function Account({ home, who: { user }, onOpen }) {
  const { style } = document.documentElement
  const [theme, setTheme] = useState(style.colorScheme)
  const choose = (/** @type {string} */ theme) => {
    localStorage.setItem('sluice.theme', theme)
    style.colorScheme = theme
    setTheme(theme)
  }
  const own = (/** @type {{ id: string, email: string }} */ { id, email }) => html`<p><strong>${email}</strong></p>
    <p class="actions"><code>${id}</code> <${Copy} text=${id} label="Copy your id" /></p>
    ${Object.keys(dialogs).map(name => html`<button type="button" onClick=${() => onOpen(name)}>${name}</button>`)}`
  return html`<section id="account" class="menu" popover="auto" aria-label="Your account">
    ${user && own(user)}
    <${Choice} label="Theme" value=${theme} options=${Object.keys(themes)} titles=${Object.values(themes)} onChange=${choose} />
    <button type="button" onClick=${() => session.endEverywhere()}>Sign out</button>
    <p class="quiet small">Times are of the zone ${timeZone}.</p>
    <p class="quiet small">Sluice ${home.version} · <a href="docs">API</a> · <a href="health">health</a></p>
  </section>`
}

/** @typedef {{ id: string, name: string, access: 'all' | 'read' | 'publish', channels?: string[], expires_at?: string }} ApiKey */

/** @param {{ onClose: () => void }} props */
function ApiKeys({ onClose }) {
  const { value, error, reload } = useLoaded(signal => get('keys', { query: { limit: 100 }, signal }), [])
  /** @type {ApiKey[]} */
  const keys = value?.keys ?? []
  const channelsOf = (/** @type {string[]} */ ids) =>
    html`${ids.slice(0, 5).map(id => html`<${Named} kind="channels" id=${id} />${' '}`)} ${ids.length > 5 && `and ${ids.length - 5} more`}`
  const rows = keys.map(({ id, name, access, channels, expires_at: end }) => ({
    key: id,
    cells: [
      html`<span title=${id}>${name || `${id.slice(0, 8)}…`}</span>`,
      access !== 'all' ? access : channels ? 'read, publish' : 'all that you may',
      channels ? channelsOf(channels) : 'all',
      end ? timeOf(Date.parse(end) / 1000) : 'revoked',
      html`<${Action} kind="danger" action=${() => send('DELETE', `keys/${id}`).then(reload)}>Revoke<//>`,
    ],
  }))
  const columns = ['Name', 'May', 'Channels', 'Until', html`<span class="unseen">Revoke</span>`]
  return html`<${Dialog} title="API keys" onClose=${onClose}>
    <p>Programs send them in place of a token. <a href="docs">POST /keys</a> issues one, with what it may do, its channels and its end.</p>
    <${Problem} error=${error} />
    ${value?.total > keys.length && html`<p class="notice">These are the first ${count(keys.length)} of ${count(value.total)}.</p>`}
    ${value && html`<${Table} caption="API keys" columns=${columns} empty="You have none." rows=${rows} />`}
  <//>`
}

/** @param {{ onClose: () => void }} props */
function ChangePassword({ onClose }) {
  const { run, isBusy, error } = useAction(async (/** @type {Record<string, string>} */ { old, password, keys }) => {
    const query = keys === undefined ? {} : { revoke_keys: true }
    await send('PATCH', 'password', { query, body: { old_password: old, password }, checksPassword: true })
    session.end('Your password is changed: sign in with the new one.')
  })

  return html`<${Dialog} title="Change password" onClose=${onClose}>
    <p>Every session of yours ends, in all browsers and programs. API keys stay valid, and so do the keys and certificates of your things.</p>
    <form class="stack" onSubmit=${onSubmit(run)}>
      <${Field} label="Old password"><input name="old" type="password" autocomplete="current-password" required autofocus /><//>
      <${Field} label="New password"><input name="password" type="password" autocomplete="new-password" required /><//>
      <p><label><input name="keys" type="checkbox" /> Also delete all my API keys</label></p>
      <${Problem} error=${error} />
      <button class="main" disabled=${isBusy} aria-busy=${isBusy}>Change the password</button>
    </form>
  <//>`
}

/** `kind`: the path of a view. @typedef {{ kind: string, title: string, more?: string, href: string }} Found */
const foundMax = 8

/** @param {{ home: import('./session.js').Home, views: readonly { path: string, title: string }[], onClose: () => void }} props */
function Search({ home, views, onClose }) {
  const [text, setText] = useState('')
  const [at, setAt] = useState(0)
  const asked = text.trim()
  const entities = useLoaded(signal => find(asked, home, signal), [asked])
  const letters = useLoaded(signal => openLetters(home, signal), []).value?.letters ?? []
  const isLike = (/** @type {string[]} */ ...texts) => texts.some(one => one.toLowerCase().includes(asked.toLowerCase()))
  const like = letters.filter(({ id, rule, reason }) => asked !== '' && isLike(id, rule, reason)).slice(-foundMax)
  /** @type {Found[]} */
  const found = [
    ...views.filter(({ title }) => isLike(title)).map(({ path, title }) => ({ kind: path, title, href: `#/${path}` })),
    ...(entities.value ?? []),
    ...like.map(({ id, rule }) => ({ kind: 'dead-letters', title: id, more: rule, href: `#/dead-letters/${id}` })),
  ]
  const chosen = Math.min(at, found.length - 1)
  const go = (/** @type {Found | undefined} */ one) => {
    if (one === undefined) return
    onClose()
    location.assign(one.href)
  }
  const press = (/** @type {KeyboardEvent} */ event) => {
    if (event.key === 'Enter') go(found[chosen])
    else if (event.key === 'ArrowDown') setAt((chosen + 1) % found.length)
    else if (event.key === 'ArrowUp') setAt((chosen + found.length - 1) % found.length)
    else return
    event.preventDefault()
  }
  const ask = (/** @type {string} */ text) => (setText(text), setAt(0))
  useLayoutEffect(() => document.getElementById(`found-${chosen}`)?.scrollIntoView({ block: 'nearest' }))
  const option = (/** @type {Found} */ one, /** @type {number} */ nth) =>
    html`<li class="row" key=${one.href} id=${`found-${nth}`} role="option" aria-selected=${nth === chosen} onClick=${() => go(one)}>
      <${Icon} name=${one.kind} /> ${one.title} <small class="quiet">${one.more}</small>
    </li>`
  return html`<${Dialog} title="Search" onClose=${onClose}>
    <input role="combobox" aria-label="Search" aria-expanded="true" aria-controls="found" aria-activedescendant=${found.length > 0 ? `found-${chosen}` : undefined}
      placeholder="Name, id, external id or rule" autofocus value=${text} onInput=${onText(ask)} onKeyDown=${press} />
    <${Problem} error=${entities.error} />
    <ul id="found" class="plain found" role="listbox" aria-label="Found">
      ${found.map(option)}
    </ul>
    <p class="quiet small" role="status">${found.length === 0 && !entities.isLoading ? 'Nothing is found.' : 'Arrow keys choose, Enter opens.'}</p>
  <//>`
}

/** Things and channels. @param {string} text @param {import('./session.js').Home} home @param {AbortSignal} signal @returns {Promise<Found[]>} */
async function find(text, { services }, signal) {
  if (text === '' || !services.includes('control plane')) return []
  const foundIn = (/** @type {string} */ kind, /** @type {Entity[]} */ entities) =>
    entities.map(one => ({ kind, title: titleOf(one), more: one.id, href: `#/${kind}/${one.id}` }))
  const ask = async (/** @type {string} */ kind, /** @type {import('./api.js').Query} */ filter) =>
    foundIn(kind, (await get(kind, { query: { ...filter, limit: foundMax }, signal }))[kind])
  const byId = (/** @type {string} */ kind) =>
    get(`${kind}/${text}`, { signal })
      .then(one => foundIn(kind, [one]))
      .catch(() => [])
  const ids = /^[0-9a-f-]{36}$/i.test(text) ? [byId('things'), byId('channels')] : []
  const asked = [...ids, ask('things', { external_id: text }), ask('things', { name: text, shared: true }), ask('channels', { name: text })]
  return [...new Map((await Promise.all(asked)).flat().map(one => [one.href, one])).values()]
}
