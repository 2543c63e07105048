// The search that `/` opens: pages, things by name, id or external id, channels, and dead letters.

import { html } from 'htm/preact'
import { useLayoutEffect, useState } from 'preact/hooks'
import { get } from '../api.js'
import { Dialog, Icon, Problem } from '../elements.js'
import { onText, useLoaded } from '../hooks.js'
import { openLetters } from './activity.js'
import { titleOf } from './list.js'

/** @import { Entity } from './list.js' */
/** `kind`: the path of a view. @typedef {{ kind: string, title: string, more?: string, href: string }} Found */

const foundMax = 8

/** @param {{ home: import('../session.js').Home, views: readonly { path: string, title: string }[], onClose: () => void }} props */
export function Search({ home, views, onClose }) {
  const [text, setText] = useState('')
  const [at, setAt] = useState(0)
  const asked = text.trim()
  const entities = useLoaded(signal => find(asked, home, signal), [asked])
  const letters = useLoaded(signal => openLetters(home, signal), []).value?.letters ?? []
  const isLike = (/** @type {string[]} */ ...texts) => texts.some(one => one.toLowerCase().includes(asked.toLowerCase()))
  /** @type {Found[]} */
  const found = [
    ...views.filter(({ title }) => isLike(title)).map(({ path, title }) => ({ kind: path, title, href: `#/${path}` })),
    ...(entities.value ?? []),
    ...letters
      .filter(({ id, rule, reason }) => asked !== '' && isLike(id, rule, reason))
      .slice(-foundMax)
      .map(({ id, rule }) => ({ kind: 'dead-letters', title: id, more: rule, href: `#/dead-letters/${id}` })),
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
  return html`<${Dialog} title="Search" onClose=${onClose}>
    <input role="combobox" aria-label="Search" aria-expanded="true" aria-controls="found" aria-activedescendant=${found.length > 0 ? `found-${chosen}` : undefined}
      placeholder="Name, id, external id or rule" autofocus value=${text} onInput=${onText(ask)} onKeyDown=${press} />
    <${Problem} error=${entities.error} />
    <ul id="found" class="plain found" role="listbox" aria-label="Found">
      ${found.map(
        (
          one,
          nth,
        ) => html`<li class="row" key=${one.href} id=${`found-${nth}`} role="option" aria-selected=${nth === chosen} onClick=${() => go(one)}>
          <${Icon} name=${one.kind} /> ${one.title} <small class="quiet">${one.more}</small>
        </li>`,
      )}
    </ul>
    <p class="quiet small" role="status">${found.length === 0 && !entities.isLoading ? 'Nothing is found.' : 'Arrow keys choose, Enter opens.'}</p>
  <//>`
}

/** Things and channels. @param {string} text @param {import('../session.js').Home} home @param {AbortSignal} signal @returns {Promise<Found[]>} */
async function find(text, { services }, signal) {
  if (text === '' || !services.includes('control plane')) return []
  const foundIn = (/** @type {string} */ kind, /** @type {Entity[]} */ entities) =>
    entities.map(one => ({ kind, title: titleOf(one), more: one.id, href: `#/${kind}/${one.id}` }))
  const ask = async (/** @type {string} */ kind, /** @type {import('../api.js').Query} */ filter) =>
    foundIn(kind, (await get(kind, { query: { ...filter, limit: foundMax }, signal }))[kind])
  const byId = (/** @type {string} */ kind) =>
    get(`${kind}/${text}`, { signal })
      .then(one => foundIn(kind, [one]))
      .catch(() => [])
  const ids = /^[0-9a-f-]{36}$/i.test(text) ? [byId('things'), byId('channels')] : []
  const asked = [...ids, ask('things', { external_id: text }), ask('things', { name: text, shared: true }), ask('channels', { name: text })]
  return [...new Map((await Promise.all(asked)).flat().map(one => [one.href, one])).values()]
}
