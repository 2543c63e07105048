// All things or all channels: creating one or many, and connecting and deleting what is selected.

import { html } from 'htm/preact'
import { useRef, useState } from 'preact/hooks'
import { send } from '../api.js'
import { Action, Copy, count, Dialog, Field } from '../elements.js'
import { onText } from '../hooks.js'
import { otherKind } from './activity.js'
import { counted, List, none, titleOf } from './list.js'

/** @import { Kind } from './activity.js' */
/** @import { Entities, Entity } from './list.js' */

/** What one request may create. */
const createdMax = 1000

/** The body of requests that connect and disconnect. @param {Kind} kind @param {Entities} entities @param {Entities} others */
function pairsOf(kind, entities, others) {
  const [ids, otherIds] = [[...entities.keys()], [...others.keys()]]
  return kind === 'things' ? { thing_ids: ids, channel_ids: otherIds } : { thing_ids: otherIds, channel_ids: ids }
}

const purpose = {
  things: 'A thing is a device: it has a key of its own, and may publish to the channels that it is connected to. You have none yet.',
  channels: 'A channel is what things publish to, and where their messages are read. You have none yet.',
}
const unconnected = {
  things: 'No thing may publish here yet: connect one.',
  channels: 'It may publish nowhere yet: connect it to a channel.',
}

/** All that the user sees or, with `to`, what this one is connected to. @param {{ kind: Kind, home?: import('../session.js').Home, to?: Entity }} props */
export function EntityList({ kind, home, to }) {
  const [ticked, setTicked] = useState(none)
  const [dialog, setDialog] = useState('')
  const [turn, setTurn] = useState(0)
  const other = otherKind[kind]
  const own = to && new Map([[to.id, to]])
  const close = () => setDialog('')
  const again = (/** @type {Entities} */ ticked) => {
    close()
    setTicked(ticked)
    setTurn(turn + 1)
  }
  const disconnect = async () => {
    await send('PUT', 'disconnect', { body: pairsOf(kind, ticked, own ?? none) })
    again(none)
  }
  // Columns of spreadsheets, where another user's name must not be a formula.
  const cell = (/** @type {string} */ name) => name.replace(/\s/g, ' ').replace(/^[=+@-]/, "'$&")
  const text = [...ticked.values()].map(({ id, name, key = '' }) => [id, cell(name), key].join('\t')).join('\n')
  const button = (/** @type {string} */ name, /** @type {string} */ title, style = '') =>
    html`<button type="button" class=${style} onClick=${() => setDialog(name)}>${title}</button>`
  const first = to ? button('connect', `Connect ${kind}`) : button('create', `Create ${kind}`, 'main')
  const withTicked = to
    ? html`<${Action} action=${disconnect}>Disconnect ${counted(ticked.size, kind)}<//>`
    : html`<span role="status"><strong>${counted(ticked.size, kind)} selected</strong></span>
        ${button('connect', `Connect to ${other}`)}
        <${Copy} text=${text} label=${kind === 'things' ? 'Copy ids, names and keys' : 'Copy ids and names'} />
        ${button('delete', 'Delete', 'danger')}
        <button type="button" class="bare" onClick=${() => setTicked(none)}>Clear</button>`
  return html`<${List} key=${turn} kind=${kind} home=${home} path=${to ? `${other}/${to.id}/${kind}` : kind} query=${kind === 'things' && !to ? { shared: true } : {}}
      ticked=${ticked} onTick=${setTicked} tools=${ticked.size === 0 ? first : withTicked} empty=${html`<p>${(to ? unconnected : purpose)[kind]}</p>${first}`} />
    ${dialog === 'create' && html`<${Create} kind=${kind} onClose=${close} onDone=${again} />`}
    ${dialog === 'connect' && html`<${Connect} kind=${to ? other : kind} entities=${own ?? ticked} onClose=${close} onDone=${() => (to ? again(none) : close())} />`}
    ${dialog === 'delete' && html`<${Delete} kind=${kind} entities=${ticked} onClose=${close} onDone=${() => again(none)} />`}`
}

/** @param {{ kind: Kind, onClose: () => void, onDone: (created: Entities) => void }} props */
function Create({ kind, onClose, onDone }) {
  const [text, setText] = useState('')
  const [many, setMany] = useState(1)
  const given = text.split('\n').map(line => line.trim())
  const numbered = (/** @type {string} */ name) => Array.from({ length: Math.min(many, createdMax) }, (_, at) => `${name}-${at + 1}`)
  const names = given.filter(name => name !== '').flatMap(name => (many > 1 ? numbered(name) : [name]))
  const create = async () => {
    const response = await send('POST', `${kind}/bulk`, { body: names.map(name => ({ name })) })
    /** @type {Entity[]} */
    const created = (await response.json())[kind]
    onDone(new Map(created.map(one => [one.id, one])))
  }
  const problem = names.length > createdMax ? `At most ${count(createdMax)} at a time.` : undefined
  return html`<${Dialog} title=${`Create ${kind}`} onClose=${onClose}>
    <${Field} label="Names" hint="One a line." problem=${problem}><textarea rows="5" value=${text} onInput=${onText(setText)}></textarea><//>
    <${Field} label="How many" hint="Of one name, with a number after each: pump-1, pump-2, …">
      <input type="number" min="1" max=${createdMax} value=${many} onInput=${onText(text => setMany(Number(text)))} />
    <//>
    <${Action} kind="main" disabled=${names.length === 0 || problem !== undefined} action=${create}>Create ${names.length === 0 ? kind : counted(names.length, kind)}<//>
  <//>`
}

/** @param {{ kind: Kind, entities: Entities, onClose: () => void, onDone: () => void }} props */
function Connect({ kind, entities, onClose, onDone }) {
  const [ticked, setTicked] = useState(none)
  const other = otherKind[kind]
  const connect = async () => {
    await send('POST', 'connect', { body: pairsOf(kind, entities, ticked) })
    onDone()
  }
  return html`<${Dialog} title=${`Connect ${counted(entities.size, kind)} to ${other}`} onClose=${onClose}>
    <p>A thing may publish to a channel, and read there what it published, once both are connected. What is connected already stays so.</p>
    <${List} kind=${other} ticked=${ticked} onTick=${setTicked} />
    <${Action} kind="main" disabled=${ticked.size === 0} action=${connect}>Connect to ${counted(ticked.size, other)}<//>
  <//>`
}

const meaning = {
  things:
    'Its key is refused everywhere at once, and its certificates are revoked. Its messages stay in the store, where the owner of the channel reads them.',
  channels:
    'Publishing to it and reading it are refused at once, and live streams end. Its messages stay in the store until their retention ends, where no user reads them.',
}

/** @param {{ kind: Kind, entities: Entities, onClose: () => void, onDone: () => void }} props */
export function Delete({ kind, entities, onClose, onDone }) {
  const left = useRef(new Set(entities.keys()))
  const remove = async () => {
    /** @type {unknown} */
    let failure
    for (const id of left.current) {
      const answer = await send('DELETE', `${kind}/${id}`).catch(error => error)
      if (answer instanceof Error) failure ??= answer
      else left.current.delete(id)
    }
    if (failure !== undefined) throw failure
    onDone()
  }
  const close = () => (left.current.size < entities.size ? onDone() : onClose())
  const some = [...entities.values()].slice(0, 10)
  return html`<${Dialog} title=${`Delete ${counted(entities.size, kind)}?`} onClose=${close}>
    <p>${some.map(titleOf).join(', ')}${entities.size > some.length && ` and ${count(entities.size - some.length)} more`}</p>
    <p>${meaning[kind]} This cannot be undone.</p>
    <${Action} kind="danger" action=${remove}>Delete ${counted(entities.size, kind)}<//>
  <//>`
}
