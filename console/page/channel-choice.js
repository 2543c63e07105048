// What views of one channel's messages share: choosing the channel, its address, and its export.

import { html } from 'htm/preact'
import { send } from './api.js'
import { Field, Named } from './elements.js'
import { onSubmit } from './hooks.js'
import { List } from './views/list.js'

/** @param {import('./session.js').ViewProps} props */
export function ChannelChoice({ path, home }) {
  const open = onSubmit(({ id = '' }) => location.assign(`#/${path}/${encodeURIComponent(id.trim())}`))
  const empty = html`<p>Messages are read by channel, and you have none yet.</p><a class="button main" href="#/channels">Create channels</a>`
  const other = html`<form class="row end" onSubmit=${open}>
    <${Field} label="Channel id, of one that is not listed"><input name="id" size="36" required /><//>
    <button>Open</button>
  </form>`
  return html`${other} ${home.services.includes('control plane') && html`<${List} kind="channels" home=${home} view=${path} empty=${empty} />`}`
}

/** @param {{ path: string, id: string }} props */
export function ChannelLine({ path, id }) {
  const [other, title] = path === 'live' ? ['explorer', 'Explorer'] : ['live', 'Live']
  return html`<p class="row trail">
    <span>Channel <${Named} kind="channels" id=${id} /></span>
    <a href=${`#/${other}/${id}`}>${title}</a> <a href=${`#/${path}`}>Another channel</a>
  </p>`
}

/** The address of a channel's messages. @param {string} id as it is in the page's own address, percent-encoded */
export function messagesOf(id) {
  return `channels/${id.replaceAll("'", '%27')}/messages`
}

/** Saves an answer in CSV as a file. The token is in the header, so not in an address. @param {string} path with its query */
export async function saveCsv(path) {
  const response = await send('GET', path, { headers: { accept: 'text/csv' } })
  const link = document.createElement('a')
  link.href = URL.createObjectURL(await response.blob())
  link.download = `${path.split('/')[1]}.csv`
  link.click()
  // The browser has taken it over by then; without this the file would stay in memory as long as the page.
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000)
}
