// Checks that a thing reaches the platform: how it publishes, and what becomes of its messages.

import { html } from 'htm/preact'
import { useState } from 'preact/hooks'
import { get } from '../api.js'
import { Choice, Copy, Problem, Segments, State, timeOf } from '../elements.js'
import { useFollowed, useLoaded } from '../hooks.js'
import { session } from '../session.js'
import { formats, languagesOf, snippet } from '../snippets.js'
import { titleOf } from './entities.js'

/** @typedef {import('./entities.js').Entity} Entity */
/**
 * @typedef {{
 *   at: number, outcome: 'accepted' | 'refused' | 'dead-lettered' | 'stored' | 'filtered' | 'empty',
 *   id?: string, message?: string, rule?: string, hint?: string,
 * }} Arrival
 */

const outcomes = {
  accepted: 'Accepted, and not stored yet',
  stored: 'Stored',
  refused: 'Refused',
  'dead-lettered': 'Dead letter',
  filtered: 'Not stored, as the writer takes no such subject',
  empty: 'Accepted without a record',
}

/** @param {{ thing: Entity, home: import('../session.js').Home }} props */
export function Connectivity({ thing, home }) {
  const [isOpen, setOpen] = useState(false)
  return html`<section class="card">
    <h2>Check connectivity</h2>
    ${
      isOpen
        ? html`<${Check} thing=${thing} home=${home} />`
        : html`<p>What this thing sends, ready to run with its id and key, and what becomes of it.</p>
            <button type="button" onClick=${() => setOpen(true)}>Check connectivity</button>`
    }
  </section>`
}

/** @param {{ thing: Entity, home: import('../session.js').Home }} props */
export function Check({ thing, home }) {
  const channels = useLoaded(signal => get(`things/${thing.id}/channels`, { query: { limit: 100 }, signal }), [])
  /** @type {Entity[]} */
  const connected = channels.value?.channels ?? []
  const [chosen, setChannel] = useState('')
  const [language, setLanguage] = useState(/** @type {import('../snippets.js').Language} */ ('curl'))
  const [format, setFormat] = useState(/** @type {typeof formats[number]} */ ('SenML'))
  const channel = chosen || connected[0]?.id
  if (channel === undefined) {
    return html`<${Problem} error=${channels.error} />
      ${channels.value && html`<p>It is connected to no channel: connect it first, then <button type="button" onClick=${channels.reload}>look again</button></p>`}`
  }
  const base = new URL('.', document.baseURI).href.replace(/\/$/, '')
  const { arrivals, mqtt } = home.links
  const text = snippet(language, { base, mqtt, channel, thing: thing.id, key: thing.key ?? '', format })
  return html`<div class="row">
      ${connected.length > 1 && html`<${Choice} label="Channel" value=${channel} options=${connected.map(({ id }) => id)} titles=${connected.map(titleOf)} onChange=${setChannel} />`}
      <${Segments} label="Language" value=${language} options=${languagesOf(mqtt !== undefined)} onChange=${setLanguage} />
      <${Segments} label="Format" value=${format} options=${formats} onChange=${setFormat} />
    </div>
    <pre class="snippet" tabindex="0" aria-label=${`${language}, ${format}`}>${text}</pre>
    <p class="row"><${Copy} text=${text} /> <span class="quiet small">On another machine, put in the address at which it reaches this one.</span></p>
    ${arrivals !== undefined && html`<${Arrivals} thing=${thing} />`}`
}

/** @param {{ thing: Entity }} props */
function Arrivals({ thing }) {
  const [arrivals, setArrivals] = useState(/** @type {readonly Arrival[]} */ ([]))
  const { isOpen, error } = useFollowed(`console/things/${thing.id}/arrivals/stream`, ({ event, data }) => {
    if (event === 'arrivals') setArrivals(JSON.parse(data))
  })
  return html`<div role="status" aria-atomic="false" class="arrivals stack">
    <${Problem} error=${error} />
    ${
      arrivals.length === 0 &&
      html`<p><${State} state="waiting">${isOpen ? 'Waiting for the first message of this thing…' : 'Connecting…'}<//></p>
        <p class="quiet small">A wrong key is answered with 401, and does not say which thing it is of.</p>`
    }
    <ol class="plain">${arrivals.map(arrival => html`<li key=${`${arrival.at} ${arrival.id}`}><${Outcome} arrival=${arrival} /></li>`)}</ol>
  </div>`
}

/** @param {{ arrival: Arrival }} props */
function Outcome({ arrival: { at, outcome, id, message, rule, hint } }) {
  const state = outcome === 'stored' ? 'good' : outcome === 'accepted' ? 'waiting' : 'bad'
  return html`<${State} state=${state}>${outcomes[outcome]}${rule && `, rule ${rule}`}: ${hint ?? message ?? id}<//> ${' '}
    ${rule && (session.value.isAdministrator ? html`<a href=${`#/dead-letters/${id}`}>${id}</a>` : html`<code>${id}</code>`)} <small class="quiet">${timeOf(at)}</small>`
}
