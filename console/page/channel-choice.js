// What views of one channel's messages share: choosing the channel, its name, and whom a record is from.

import { html } from 'htm/preact'
import { useState } from 'preact/hooks'
import { get, send } from './api.js'
import { Field, Problem, Table, useLoaded } from './elements.js'
import { Named } from './names.js'
import { titleOf } from './views/entities.js'

/** @typedef {import('./session.js').Home} Home */

const listedMax = 20
const knowsNames = (/** @type {Home} */ { services }) => services.includes('control plane')

/** @param {{ path: 'live' | 'explorer', home: Home }} props */
export function ChannelChoice({ path, home }) {
  const [name, setName] = useState('')
  /** @param {SubmitEvent} event */
  const open = event => {
    event.preventDefault()
    const given = /** @type {string | null} */ (new FormData(/** @type {HTMLFormElement} */ (event.target)).get('id'))
    const id = given?.trim() ?? ''
    if (id !== '') location.hash = `#/${path}/${encodeURIComponent(id)}`
  }
  const search = (/** @type {AbortSignal} */ signal) => get('channels', { query: { name, limit: listedMax }, signal })
  const { value, error } = useLoaded(signal => (knowsNames(home) ? search(signal) : Promise.resolve(undefined)), [name])
  return html`${
    knowsNames(home) &&
    html`<${Field} label="Search channels by name"
        ><input type="search" value=${name} onInput=${(/** @type {any} */ event) => setName(event.target.value)}
      /><//>
      <${Problem} error=${error} />
      ${
        value &&
        html`<${Table}
          caption="Channels"
          columns=${['Name', 'Id']}
          empty=${name === '' ? 'There are no channels yet.' : `No name contains “${name}”.`}
          rows=${value.channels.map((/** @type {import('./views/entities.js').Entity} */ channel) => ({
            key: channel.id,
            cells: [html`<a href=${`#/${path}/${channel.id}`}>${titleOf(channel)}</a>`, html`<code>${channel.id}</code>`],
          }))}
        />
        ${value.total > listedMax && html`<p class="quiet">The first ${listedMax} of ${value.total}: search for the others.</p>`}`
      }`
  }
    <form onSubmit=${open}>
      <${Field} label="Channel id" hint=${knowsNames(home) ? 'Of a channel that is not listed.' : 'Only the control plane lists channels.'}><input name="id" required /><//>
      <button class=${knowsNames(home) ? 'plain' : 'main'}>Open</button>
    </form>`
}

/** @param {{ path: 'live' | 'explorer', id: string, home: Home }} props */
export function ChannelLine({ path, id, home }) {
  const [other, title] = path === 'live' ? ['explorer', 'Explorer'] : ['live', 'Live']
  return html`<p class="row">
    <span>Channel ${knowsNames(home) ? html`<${Named} kind="channels" id=${id} />` : html`<code>${id}</code>`}</span>
    <a href=${`#/${other}/${encodeURIComponent(id)}`}>${title}</a> <a href=${`#/${path}`}>Another channel</a>
  </p>`
}

/** @param {{ id: string, home: Home }} props */
export function Publisher({ id, home }) {
  return knowsNames(home) ? html`<${Named} kind="things" id=${id} />` : html`<code title=${id}>${id.slice(0, 8)}…</code>`
}

/** The address of a channel's messages. @param {string} id */
export function messagesOf(id) {
  return `channels/${encodeURIComponent(id).replaceAll("'", '%27')}/messages`
}

/**
 * Saves an answer in CSV as a file. The token is in the header, so not in an address.
 *
 * @param {string} path with its query
 */
export async function saveCsv(path) {
  const response = await send('GET', path, { headers: { accept: 'text/csv' } })
  const file = await response.blob().catch(() => {
    throw new Error('The export broke off before its end: nothing was saved. Try again, or take a shorter range.')
  })
  const link = document.createElement('a')
  link.href = URL.createObjectURL(file)
  link.download = `${path.split('/')[1]}.csv`
  link.click()
  // The browser has taken it over by then; without this the file would stay in memory as long as the page.
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000)
}
