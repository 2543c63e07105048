// One thing or one channel: name, metadata, key, sharing, what it is connected to, and deleting it.

import { html } from 'htm/preact'
import { useState } from 'preact/hooks'
import { get, send } from '../api.js'
import { Action, Copy, Dialog, Field, Problem, useLoaded } from '../elements.js'
import { Connectivity } from './connectivity.js'
import { Connect, counted, Delete, EntityList, otherKind, Ticks, titleOf } from './entities.js'

/** @typedef {import('./entities.js').Kind} Kind */
/** @typedef {import('./entities.js').Entity} Entity */

/** @param {import('../session.js').ViewProps} props */
export function Things(props) {
  const [id] = props.route
  return id === undefined ? html`<${EntityList} kind="things" />` : html`<${EntityView} key=${id} kind="things" id=${id} ...${props} />`
}

/** @param {import('../session.js').ViewProps} props */
export function Channels(props) {
  const [id] = props.route
  return id === undefined ? html`<${EntityList} kind="channels" />` : html`<${EntityView} key=${id} kind="channels" id=${id} ...${props} />`
}

/** @param {import('../session.js').ViewProps & { kind: Kind, id: string }} props */
function EntityView({ kind, id, home, session }) {
  const path = `${kind}/${encodeURIComponent(id)}`
  const { value, error, reload } = useLoaded(async signal => {
    const response = await send('GET', path, { signal })
    return { entity: /** @type {Entity} */ (await response.json()), version: response.headers.get('etag') ?? '*' }
  }, [])
  const [dialog, setDialog] = useState(/** @type {'edit' | 'delete' | undefined} */ (undefined))
  const close = () => setDialog(undefined)
  const list = html`<p><a href=${`#/${kind}`}>All ${kind}</a></p>`
  if (value === undefined) return html`${list}<${Problem} error=${error} />`
  const { entity } = value
  return html`${list}
    <section class="card">
        <h2>${titleOf(entity)}</h2>
        <p class="row"><code>${entity.id}</code> <${Copy} text=${entity.id} label="Copy the id" /></p>
        ${entity.metadata && html`<pre aria-label="Metadata" tabindex="0">${JSON.stringify(entity.metadata, null, 2)}</pre>`}
        ${entity.key !== undefined && html`<${Key} entityKey=${entity.key} />`}
        <p class="row">
          <button type="button" onClick=${() => setDialog('edit')}>Change name and metadata</button>
          <button type="button" class="danger" onClick=${() => setDialog('delete')}>Delete</button>
        </p>
    </section>
    <div class="cards">
      <${Connections} kind=${kind} entity=${entity} />
      ${kind === 'things' && html`<${Sharing} path=${path} isAdministrator=${session.isAdministrator === true} />`}
    </div>
    ${kind === 'things' && html`<${Connectivity} thing=${entity} home=${home} />`}
    ${dialog === 'edit' && html`<${Edit} path=${path} entity=${entity} version=${value.version} onClose=${close} onChanged=${reload} />`}
    ${
      dialog === 'delete' &&
      html`<${Delete} kind=${kind} entities=${[entity]} onClose=${close} onDeleted=${() => {
        location.hash = `#/${kind}`
      }} />`
    }`
}

/** @param {{ entityKey: string }} props */
function Key({ entityKey }) {
  const [isShown, setShown] = useState(false)
  return html`<p class="row">
    <button type="button" aria-expanded=${isShown} onClick=${() => setShown(!isShown)}>${isShown ? 'Hide the key' : 'Show the key'}</button>
    ${isShown && html`<code>${entityKey}</code> <${Copy} text=${entityKey} label="Copy the key" />`}
  </p>`
}

/** @param {{ path: string, entity: Entity, version: string, onClose: () => void, onChanged: () => void }} props */
function Edit({ path, entity, version, onClose, onChanged }) {
  const [name, setName] = useState(entity.name)
  const [metadata, setMetadata] = useState(JSON.stringify(entity.metadata ?? {}, null, 2))
  const given = parsed(metadata)
  const save = async () => {
    await send('PUT', path, { body: { name, metadata: given }, headers: { 'if-match': version } })
    onChanged()
    onClose()
  }
  return html`<${Dialog} title="Change name and metadata" onClose=${onClose}>
    <${Field} label="Name"><input value=${name} onInput=${(/** @type {any} */ event) => setName(event.target.value)} /><//>
    <${Field} label="Metadata" hint="A JSON object." problem=${given === undefined ? 'This is not a JSON object.' : undefined}>
      <textarea rows="8" value=${metadata} onInput=${(/** @type {any} */ event) => setMetadata(event.target.value)}></textarea>
    <//>
    <${Action} kind="main" disabled=${given === undefined} action=${save}>Save<//>
  <//>`
}

/** @param {string} json @returns {object | undefined} */
function parsed(json) {
  try {
    const value = JSON.parse(json)
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : undefined
  } catch {
    return undefined
  }
}

/** @param {{ kind: Kind, entity: Entity }} props */
function Connections({ kind, entity }) {
  const other = otherKind[kind]
  const [ticked, setTicked] = useState(/** @type {ReadonlyMap<string, Entity>} */ (new Map()))
  const [isConnecting, setConnecting] = useState(false)
  const [turn, setTurn] = useState(0)
  const disconnect = async () => {
    const ids = { [`${kind.slice(0, -1)}_ids`]: [entity.id], [`${other.slice(0, -1)}_ids`]: [...ticked.keys()] }
    await send('PUT', 'disconnect', { body: ids })
    setTicked(new Map())
    setTurn(turn + 1)
  }
  return html`<section class="card">
    <h2>Connected ${other}</h2>
    <${Ticks} kind=${other} path=${`${kind}/${entity.id}/${other}`} turn=${turn} hasSearch=${false} ticked=${ticked} onTick=${setTicked} />
    <p class="row">
      <button type="button" onClick=${() => setConnecting(true)}>Connect ${other}</button>
      <${Action} disabled=${ticked.size === 0} action=${disconnect}>Disconnect ${ticked.size > 0 ? counted(ticked.size, other) : 'the ticked'}<//>
    </p>
    ${isConnecting && html`<${Connect} kind=${kind} entities=${[entity]} onClose=${() => setConnecting(false)} onDone=${() => setTurn(turn + 1)} />`}
  </section>`
}

const rights = /** @type {const} */ (['read', 'write', 'delete'])

/** @param {{ path: string, isAdministrator: boolean }} props */
function Sharing({ path, isAdministrator }) {
  const [user, setUser] = useState('')
  const [given, setGiven] = useState(/** @type {readonly string[]} */ (['read']))
  const [outcome, setOutcome] = useState('')
  const change = (/** @type {'POST' | 'DELETE'} */ method, /** @type {string} */ done) => async () => {
    setOutcome('')
    await send(method, `${path}/share`, { body: { user_ids: [await idOf(user.trim())], policies: given } })
    setOutcome(done)
  }
  const isReady = user.trim() !== '' && given.length > 0
  const toggle = (/** @type {string} */ right) =>
    setGiven(given => (given.includes(right) ? given.filter(one => one !== right) : [...given, right]))
  return html`<section class="card">
    <h2>Share</h2>
    <${Field} label=${isAdministrator ? "The user's id or email" : "The user's id"} hint=${isAdministrator ? '' : 'They see it on their overview.'}>
      <input value=${user} onInput=${(/** @type {any} */ event) => setUser(event.target.value)} />
    <//>
    <fieldset class="row">
      <legend>Rights</legend>
      ${rights.map(right => html`<label><input type="checkbox" checked=${given.includes(right)} onChange=${() => toggle(right)} /> ${right}</label>`)}
    </fieldset>
    <p class="row">
      <${Action} disabled=${!isReady} action=${change('POST', 'Shared.')}>Share<//>
      <${Action} disabled=${!isReady} action=${change('DELETE', 'No longer shared.')}>Stop sharing<//>
      <span role="status">${outcome}</span>
    </p>
  </section>`
}

/** @param {string} user an id, or for administrators an email */
async function idOf(user) {
  if (!user.includes('@')) return user
  const { users } = await get('users', { query: { email: user, limit: 100 } })
  const found = users.find((/** @type {{ email: string }} */ { email }) => email === user.toLowerCase())
  if (found === undefined) throw new Error('No user has this email.')
  return found.id
}
