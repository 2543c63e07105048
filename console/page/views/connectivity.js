// Checks that a thing reaches the platform: how it publishes, and what becomes of its messages.

import { get, send } from '../api.js'
import { Choice, Copy, Field, Problem, State, timeOf } from '../elements.js'
import { html, onSubmit, useAction, useFollowed, useLoaded, useState } from '../hooks.js'
import { session } from '../session.js'
import { formats, languagesOf, payloads, snippet } from '../snippets.js'
import { titleOf } from './list.js'

/** @import { Entity } from './list.js' */
/** @typedef {{ at: number, outcome: 'accepted' | 'refused' | 'dead-lettered' | 'stored' | 'filtered' | 'empty', id?: string, message?: string, rule?: string, hint?: string }} Arrival */

const here = 'This page'
const outcomes = {
  accepted: 'Accepted, and not stored yet',
  stored: 'Stored',
  refused: 'Refused',
  'dead-lettered': 'Dead letter',
  filtered: 'Not stored, as the writer takes no such subject',
  empty: 'Accepted without a record',
}

/** @param {{ thing: Entity, home: import('../session.js').Home, above?: (channel: string) => unknown }} props `above`: what else there is of a channel */
export function Check({ thing, home, above }) {
  const channels = useLoaded(signal => get(`things/${thing.id}/channels`, { query: { limit: 100 }, signal }), [])
  /** @type {Entity[]} */
  const connected = channels.value?.channels ?? []
  const [chosen, setChannel] = useState('')
  const [language, setLanguage] = useState(/** @type {import('../snippets.js').Language | typeof here} */ ('curl'))
  const [format, setFormat] = useState(/** @type {typeof formats[number]} */ ('SenML'))
  const channel = chosen || connected[0]?.id
  if (channel === undefined) {
    return html`<${Problem} error=${channels.error} />
      ${channels.value && html`<p>It is connected to no channel: connect it first, then <button type="button" onClick=${channels.reload}>look again</button></p>`}`
  }
  const base = new URL('.', document.baseURI).href.replace(/\/$/, '')
  const { arrivals, mqtt } = home.links
  const languages = [...languagesOf(mqtt !== undefined), ...(home.services.includes('ingest') ? [here] : [])]
  const text = language === here ? '' : snippet(language, { base, mqtt, channel, thing: thing.id, key: thing.key ?? '', format })
  const shown =
    language === here
      ? html`<${Publish} key=${format} thing=${thing} channel=${channel} format=${format} />`
      : html`<pre class="snippet" tabindex="0" aria-label=${`${language}, ${format}`}>${text}</pre>
          <p class="row"><${Copy} text=${text} /> <span class="quiet small">On another machine, put in the address at which it reaches this one.</span></p>`
  return html`${connected.length > 1 && html`<${Choice} label="Channel" value=${channel} options=${connected.map(({ id }) => id)} titles=${connected.map(titleOf)} onChange=${setChannel} />`}
    ${above?.(channel)}
    <div class="row">
      <${Choice} label="Language" value=${language} options=${languages} onChange=${setLanguage} />
      <${Choice} label="Format" value=${format} options=${formats} onChange=${setFormat} />
    </div>
    ${shown} ${arrivals !== undefined && html`<${Arrivals} thing=${thing} />`}`
}

/** A box that publishes as the thing. @param {{ thing: Entity, channel: string, format: typeof formats[number] }} props */
function Publish({ thing, channel, format }) {
  const { type, path, text } = payloads[format]
  const { run, isBusy, error } = useAction((/** @type {Record<string, string>} */ { subtopic = '', payload = '' }) => {
    const headers = { authorization: `Thing ${thing.key}`, 'content-type': type, prefer: 'handling=strict' }
    return send('POST', `channels/${channel}/messages${subtopic && `/${subtopic}`}`, { body: payload, headers, withoutToken: true })
  })
  return html`<form class="stack" onSubmit=${onSubmit(run)}>
    <${Field} label="Subtopic" hint="May be empty. The last part of that of a JSON message is its format."><input name="subtopic" defaultValue=${path.slice(1)} /><//>
    <${Field} label="Payload"><textarea name="payload" rows="3" required defaultValue=${text}></textarea><//>
    <${Problem} error=${error} />
    <button class="main" disabled=${isBusy} aria-busy=${isBusy}>Publish</button>
  </form>`
}

/** @param {{ thing: Entity }} props */
function Arrivals({ thing }) {
  const [arrivals, setArrivals] = useState(/** @type {readonly Arrival[]} */ ([]))
  const { isOpen, error } = useFollowed(`console/things/${thing.id}/arrivals/stream`, ({ event, data }) => {
    if (event === 'arrivals') setArrivals(JSON.parse(data))
  })
  const none = html`<p><${State} state="waiting">${isOpen ? 'Waiting for the first message of this thing…' : 'Connecting…'}<//></p>
    <p class="quiet small">A wrong key is answered with 401, and does not say which thing it is of.</p>`
  return html`<div role="status" aria-atomic="false" class="arrivals stack">
    <${Problem} error=${error} /> ${arrivals.length === 0 && none}
    <ol class="plain">${arrivals.map(arrival => html`<li key=${`${arrival.at} ${arrival.id}`}><${Outcome} arrival=${arrival} /></li>`)}</ol>
  </div>`
}

/** @param {{ arrival: Arrival }} props */
function Outcome({ arrival: { at, outcome, id, message, rule, hint } }) {
  const state = outcome === 'stored' ? 'good' : outcome === 'accepted' ? 'waiting' : 'bad'
  return html`<${State} state=${state}>${outcomes[outcome]}${rule && `, rule ${rule}`}: ${hint ?? message ?? id}<//> ${' '}
    ${rule && (session.value.isAdministrator ? html`<a href=${`#/dead-letters/${id}`}>${id}</a>` : html`<code>${id}</code>`)} <small class="quiet">${timeOf(at)}</small>`
}
