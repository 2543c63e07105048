// One thing or one channel: its metadata, its key, with whom it is shared, what it is connected to, and deleting it.

import { html } from 'htm/preact'
import { useState } from 'preact/hooks'
import { get, send } from '../api.js'
import { Action, Choice, Copy, Field, Problem } from '../elements.js'
import { onText, useLoaded } from '../hooks.js'
import { Connectivity } from './connectivity.js'
import { Connect, counted, Delete, EntityList, List, none, otherKind, pairsOf, titleOf } from './entities.js'

/** @typedef {import('./entities.js').Kind} Kind */
/** @typedef {import('./entities.js').Entity} Entity */

/** @param {import('../session.js').ViewProps} props */
export function Entities({ path, route: [id], home }) {
  const kind = /** @type {Kind} */ (path)
  return id === undefined ? html`<${EntityList} kind=${kind} />` : html`<${One} key=${id} kind=${kind} id=${id} home=${home} />`
}

/** @param {{ kind: Kind, id: string, home: import('../session.js').Home }} props */
function One({ kind, id, home }) {
  const { value: entity, error, reload } = useLoaded(signal => get(`${kind}/${encodeURIComponent(id)}`, { signal }), [])
  const [isDeleting, setDeleting] = useState(false)
  const trail = html`<p class="trail"><a href=${`#/${kind}`}>All ${kind}</a></p>`
  if (entity === undefined) return html`${trail}<${Problem} error=${error} />`
  const leave = () => {
    location.hash = `#/${kind}`
  }
  return html`${trail}
    <section class="card">
      <div class="row spread">
        <h2>${titleOf(entity)}</h2>
        <button type="button" class="danger" onClick=${() => setDeleting(true)}>Delete</button>
      </div>
      <dl class="facts">
        <dt>Id</dt><dd class="actions"><code>${entity.id}</code> <${Copy} text=${entity.id} label="Copy the id" /></dd>
        ${entity.key !== undefined && html`<${Key} entityKey=${entity.key} />`}
        ${entity.metadata && html`<dt>Metadata</dt><dd><pre aria-label="Metadata" tabindex="0">${JSON.stringify(entity.metadata, null, 2)}</pre></dd>`}
      </dl>
      ${kind === 'channels' && html`<p class="actions"><a class="button" href=${`#/live/${entity.id}`}>Live</a> <a class="button" href=${`#/explorer/${entity.id}`}>Explorer</a></p>`}
    </section>
    ${kind === 'things' && html`<${Connectivity} thing=${entity} home=${home} />`}
    <div class="cards">
      <${Connections} kind=${kind} entity=${entity} />
      ${kind === 'things' && html`<${Sharing} path=${`things/${entity.id}/share`} onKeyReplaced=${reload} />`}
    </div>
    ${isDeleting && html`<${Delete} kind=${kind} entities=${new Map([[id, entity]])} onClose=${() => setDeleting(false)} onDone=${leave} />`}`
}

/** @param {{ entityKey: string }} props */
function Key({ entityKey }) {
  const [isShown, setShown] = useState(false)
  return html`<dt>Key</dt>
    <dd class="actions">
      ${isShown && html`<code>${entityKey}</code> <${Copy} text=${entityKey} label="Copy the key" />`}
      <button type="button" aria-expanded=${isShown} onClick=${() => setShown(!isShown)}>${isShown ? 'Hide the key' : 'Show the key'}</button>
    </dd>`
}

/** @param {{ kind: Kind, entity: Entity }} props */
function Connections({ kind, entity }) {
  const other = otherKind[kind]
  const own = new Map([[entity.id, entity]])
  const [ticked, setTicked] = useState(none)
  const [isConnecting, setConnecting] = useState(false)
  const [turn, setTurn] = useState(0)
  const again = () => {
    setConnecting(false)
    setTicked(none)
    setTurn(turn + 1)
  }
  const disconnect = async () => {
    await send('PUT', 'disconnect', { body: pairsOf(kind, own, ticked) })
    again()
  }
  return html`<section class="card">
    <h2>Connected ${other}</h2>
    <${List} key=${turn} kind=${other} path=${`${kind}/${entity.id}/${other}`} hasSearch=${false} ticked=${ticked} onTick=${setTicked}
      empty=${kind === 'things' ? 'It may publish nowhere yet: connect it to a channel.' : 'No thing may publish here yet: connect one.'} />
    <p class="actions">
      <button type="button" onClick=${() => setConnecting(true)}>Connect ${other}</button>
      ${ticked.size > 0 && html`<${Action} action=${disconnect}>Disconnect ${counted(ticked.size, other)}<//>`}
    </p>
    ${isConnecting && html`<${Connect} kind=${kind} entities=${own} onClose=${() => setConnecting(false)} onDone=${again} />`}
  </section>`
}

const rights = ['read', 'read,write', 'read,write,delete']

/** @param {{ path: string, onKeyReplaced: () => void }} props */
function Sharing({ path, onKeyReplaced }) {
  const [user, setUser] = useState('')
  const [given, setGiven] = useState('read')
  const [replacesKey, setReplacesKey] = useState(false)
  const [outcome, setOutcome] = useState('')
  const body = { user_ids: [user.trim()], policies: given.split(',') }
  const share = async () => {
    setOutcome('')
    await send('POST', path, { body })
    setOutcome('Shared.')
  }
  const stop = async () => {
    setOutcome('')
    await send('DELETE', path, { body, query: replacesKey ? { rotate_key: true } : {} })
    setOutcome(replacesKey ? 'No longer shared: the device needs its new key.' : 'No longer shared.')
    if (replacesKey) onKeyReplaced()
  }
  const isDisabled = user.trim() === ''
  return html`<section class="card">
    <h2>Share</h2>
    <p>Who may read a thing also sees its key, and can publish as the thing even after you stop sharing, until you replace the key.</p>
    <${Field} label="The user's id" hint="They copy it beside their email."><input value=${user} onInput=${onText(setUser)} /><//>
    <${Choice} label="Rights" value=${given} options=${rights} onChange=${setGiven} />
    <p>
      <label>
        <input type="checkbox" checked=${replacesKey} onChange=${() => setReplacesKey(!replacesKey)} /> Also replace the key when I stop sharing
      </label>
    </p>
    <p class="actions">
      <${Action} disabled=${isDisabled} action=${share}>Share<//>
      <${Action} disabled=${isDisabled} action=${stop}>Stop sharing<//>
      <span role="status">${outcome}</span>
    </p>
  </section>`
}
