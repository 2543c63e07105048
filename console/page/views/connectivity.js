// Checks that a thing reaches the platform: how it publishes, and what becomes of its first message.

import { html } from 'htm/preact'
import { useEffect, useState } from 'preact/hooks'
import { follow, get } from '../api.js'
import { Copy, Field, Problem, State, timeOf, useLoaded } from '../elements.js'
import { formats, languages, snippet } from '../snippets.js'
import { titleOf } from './entities.js'

/** @typedef {import('./entities.js').Entity} Entity */
/**
 * @typedef {{
 *   at: number, outcome: 'accepted' | 'refused' | 'dead-lettered' | 'stored' | 'filtered' | 'empty', channel: string,
 *   id?: string, code?: string, message?: string, rule?: string, hint?: string,
 * }} Arrival
 */

const silentMs = 20_000
const shownMax = 5

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
function Check({ thing, home }) {
  const channels = useLoaded(signal => get(`things/${thing.id}/channels`, { query: { limit: 100 }, signal }), [])
  /** @type {Entity[]} */
  const connected = channels.value?.channels ?? []
  const [chosen, setChannel] = useState('')
  const [language, setLanguage] = useState(/** @type {typeof languages[number]} */ ('curl'))
  const [format, setFormat] = useState(/** @type {typeof formats[number]} */ ('SenML'))
  const [address, setAddress] = useState(new URL('.', document.baseURI).href.replace(/\/$/, ''))
  const channel = chosen || connected[0]?.id
  if (channel === undefined) {
    return html`<${Problem} error=${channels.error} />${channels.value && html`<p>It is connected to no channel: connect it first, then <button type="button" onClick=${channels.reload}>look again</button></p>`}`
  }
  const text = snippet(language, { base: address.trim().replace(/\/+$/, ''), channel, key: thing.key ?? '', format })
  const isLocal = /^https?:\/\/(127\.|localhost\b|\[::1\])/.test(address)
  const ofDevices = isLocal ? 'A device elsewhere needs the address of this machine in its network.' : ''
  const hasArrivals = home.links['arrivals'] !== undefined
  return html`<div class="cards top">
      <${Field} label="Channel">
        <select value=${channel} onChange=${(/** @type {any} */ event) => setChannel(event.target.value)}>
          ${connected.map(one => html`<option value=${one.id}>${titleOf(one)}</option>`)}
        </select>
      <//>
      <${Field} label="Address" hint=${hasArrivals ? ofDevices : 'Where ingest listens, which is another process.'}>
        <input type="url" value=${address} onInput=${(/** @type {any} */ event) => setAddress(event.target.value)} />
      <//>
      <${Choice} legend="Language" options=${languages} value=${language} onChange=${setLanguage} />
      <${Choice} legend="Format" options=${formats} value=${format} onChange=${setFormat} />
    </div>
    <pre class="snippet" tabindex="0" aria-label=${`${language}, ${format}`}>${text}</pre>
    <p><${Copy} text=${text} /></p>
    ${hasArrivals && html`<${Arrivals} thing=${thing} />`}`
}

/** @param {{ legend: string, options: readonly string[], value: string, onChange: (value: any) => void }} props */
function Choice({ legend, options, value, onChange }) {
  return html`<fieldset class="row">
    <legend>${legend}</legend>
    ${options.map(
      option =>
        html`<label><input type="radio" name=${legend} checked=${option === value} onChange=${() => onChange(option)} /> ${option}</label>`,
    )}
  </fieldset>`
}

/** @param {{ thing: Entity }} props */
function Arrivals({ thing }) {
  const [arrivals, setArrivals] = useState(/** @type {readonly Arrival[]} */ ([]))
  const [isOpen, setOpen] = useState(false)
  const [isSilent, setSilent] = useState(false)
  const [error, setError] = useState(/** @type {unknown} */ (undefined))
  useEffect(() => {
    const stop = new AbortController()
    follow(`console/things/${thing.id}/arrivals/stream`, {
      signal: stop.signal,
      onState: (state, error) => (setOpen(state === 'open'), setError(error)),
      onEvent({ event, data }) {
        if (event !== 'arrival') return
        /** @type {Arrival} */
        const arrival = JSON.parse(data)
        // What became of a message takes the place of its acceptance.
        const isPast = (/** @type {Arrival} */ { outcome, id }) => outcome === 'accepted' && id === arrival.id
        setArrivals(arrivals => [arrival, ...arrivals.filter(one => !isPast(one))].slice(0, shownMax))
      },
    }).catch(setError)
    const timer = setTimeout(() => setSilent(true), silentMs)
    return () => (clearTimeout(timer), stop.abort())
  }, [])
  const [last, ...earlier] = arrivals
  return html`<div role="status" class="arrivals">
    <${Problem} error=${error} />
    ${last !== undefined && html`<p><${Outcome} arrival=${last} /></p>`}
    ${last === undefined && html`<p><${State} state="waiting">${isOpen ? 'Waiting for the first message of this thing…' : 'Connecting…'}<//></p>`}
    ${
      last === undefined &&
      isSilent &&
      html`<p>Nothing has come. With a wrong key the answer is 401, and no one can tell from which thing it came. Without an answer, the address is wrong or not reachable.</p>`
    }
    ${earlier.length > 0 && html`<ol class="plain quiet">${earlier.map(arrival => html`<li>${timeOf(arrival.at)} <${Outcome} arrival=${arrival} /></li>`)}</ol>`}
  </div>`
}

/** @param {{ arrival: Arrival }} props */
function Outcome({ arrival: { outcome, id, code, message, rule, hint } }) {
  if (outcome === 'stored') return html`<${State} state="good">Stored: ${id}<//>`
  if (outcome === 'accepted') return html`<${State} state="waiting">Accepted, and not stored yet: ${id}<//>`
  if (outcome === 'filtered') return html`<${State} state="bad">Not stored, as the writer takes no such subject: ${id}<//>`
  if (outcome === 'empty') return html`<${State} state="bad">Accepted without a record: ${id}<//>`
  if (outcome === 'refused') return html`<${State} state="bad">Refused: ${message ?? code}<//> <small>${code}</small>`
  return html`<${State} state="bad">Dead letter, rule ${rule}<//>: ${hint ?? message} <a href=${`#/dead-letters/${id}`}>${id}</a>`
}
