// Lists of things and of channels: search, pages, creating one or many, and connecting and deleting what is selected.

import { html } from 'htm/preact'
import { useRef, useState } from 'preact/hooks'
import { get, send } from '../api.js'
import { Action, Copy, count, Dialog, Field, Problem, Table } from '../elements.js'
import { onText, useLoaded } from '../hooks.js'

/** @typedef {'things' | 'channels'} Kind */
/** @typedef {{ id: string, name: string, key?: string, metadata?: Record<string, unknown> }} Entity */
/** By id. @typedef {ReadonlyMap<string, Entity>} Entities */

const pageSize = 20
/** What one request may create. */
const createdMax = 1000
/** @type {Entities} */
export const none = new Map()
export const otherKind = { things: /** @type {const} */ ('channels'), channels: /** @type {const} */ ('things') }

/** @param {Entity} entity */
export function titleOf({ id, name }) {
  return name === '' ? `unnamed, ${id.slice(0, 8)}…` : name
}

/** A number of them: `1 thing`, `20 channels`. @param {number} number @param {Kind} kind */
export function counted(number, kind) {
  return `${count(number)} ${number === 1 ? kind.slice(0, -1) : kind}`
}

/** The body of requests that connect and disconnect. @param {Kind} kind @param {Entities} entities @param {Entities} others */
export function pairsOf(kind, entities, others) {
  const [ids, otherIds] = [[...entities.keys()], [...others.keys()]]
  return kind === 'things' ? { thing_ids: ids, channel_ids: otherIds } : { thing_ids: otherIds, channel_ids: ids }
}

const purpose = {
  things: 'A thing is a device: it has a key of its own, and may publish to the channels that it is connected to. You have none yet.',
  channels: 'A channel is what things publish to, and where their messages are read. You have none yet.',
}

/** @param {{ kind: Kind }} props */
export function EntityList({ kind }) {
  const [ticked, setTicked] = useState(none)
  const [dialog, setDialog] = useState(/** @type {'create' | 'connect' | 'delete' | undefined} */ (undefined))
  const [turn, setTurn] = useState(0)
  const isEmpty = ticked.size === 0
  const close = () => setDialog(undefined)
  const again = (/** @type {Entities} */ ticked) => {
    close()
    setTicked(ticked)
    setTurn(turn + 1)
  }
  // Columns of spreadsheets, where another user's name must not be a formula.
  const cell = (/** @type {string} */ name) => name.replace(/\s/g, ' ').replace(/^[=+@-]/, "'$&")
  const text = [...ticked.values()].map(({ id, name, key = '' }) => [id, cell(name), key].join('\t')).join('\n')
  const create = html`<button type="button" class="main" onClick=${() => setDialog('create')}>Create ${kind}</button>`
  const tools = isEmpty
    ? create
    : html`<span role="status"><strong>${counted(ticked.size, kind)} selected</strong></span>
        <button type="button" onClick=${() => setDialog('connect')}>Connect to ${otherKind[kind]}</button>
        <${Copy} text=${text} label=${kind === 'things' ? 'Copy ids, names and keys' : 'Copy ids and names'} />
        <button type="button" class="danger" onClick=${() => setDialog('delete')}>Delete</button>
        <button type="button" class="bare" onClick=${() => setTicked(none)}>Clear</button>`
  const empty = html`<p>${purpose[kind]}</p>${create}`
  return html`<${List} key=${turn} kind=${kind} query=${kind === 'things' ? { shared: true } : {}} ticked=${ticked} onTick=${setTicked} tools=${tools} empty=${empty} />
    ${dialog === 'create' && html`<${Create} kind=${kind} onClose=${close} onDone=${again} />`}
    ${dialog === 'connect' && html`<${Connect} kind=${kind} entities=${ticked} onClose=${close} onDone=${close} />`}
    ${dialog === 'delete' && html`<${Delete} kind=${kind} entities=${ticked} onClose=${close} onDone=${() => again(none)} />`}`
}

/**
 * A list in pages with a search by name, whose rows can be selected, and lead to a view.
 *
 * @param {{
 *   kind: Kind, path?: string, query?: Record<string, boolean>, hasSearch?: boolean, view?: string, ticked?: Entities, onTick?: (ticked: Entities) => void,
 *   tools?: import('../elements.js').Children, empty?: import('../elements.js').Children, children?: import('../elements.js').Children,
 * }} props `tools`: beside the search, which an empty list has not; `empty`: what the list is for; `children`: below it, once it is there
 */
export function List({ kind, path = kind, query = {}, hasSearch = true, view = kind, ticked = none, onTick, tools, empty, children }) {
  const [name, setName] = useState('')
  const [offset, setOffset] = useState(0)
  const { value, error } = useLoaded(
    signal => get(path, { query: { ...query, name: name || undefined, offset, limit: pageSize }, signal }),
    [name, offset],
  )
  /** @type {Entity[]} */
  const items = value?.[kind] ?? []
  const box = (/** @type {string} */ label, /** @type {Entity[]} */ entities) => {
    const isTicked = entities.every(({ id }) => ticked.has(id))
    const others = [...ticked].filter(([id]) => entities.every(entity => entity.id !== id))
    const given = entities.map(entity => /** @type {const} */ ([entity.id, entity]))
    const toggle = () => onTick?.(new Map(isTicked ? others : [...others, ...given]))
    return onTick && html`<input type="checkbox" aria-label=${label} checked=${isTicked} onChange=${toggle} />`
  }
  const search = (/** @type {string} */ text) => (setName(text), setOffset(0))
  const turn = (/** @type {string} */ title, /** @type {number} */ to) =>
    html`<button type="button" disabled=${to < 0 || to >= value.total} onClick=${() => setOffset(to)}>${title}</button>`
  const isEmpty = name === '' && value?.total === 0
  return html`${
    hasSearch &&
    !isEmpty &&
    html`<div class="row spread end">
      <${Field} label="Search by name"><input type="search" size="30" value=${name} onInput=${onText(search)} /><//>
      <div class="actions">${tools}</div>
    </div>`
  }
    <${Problem} error=${error} />
    ${
      value &&
      html`<${Table}
        caption=${kind}
        columns=${[html`<span class="actions">${box('Select this page', items)} Name</span>`, 'Id']}
        empty=${isEmpty ? (empty ?? `There are no ${kind} yet.`) : `No name contains “${name}”.`}
        rows=${items.map(entity => ({
          key: entity.id,
          cells: [
            html`<span class="actions">${box(`Select ${titleOf(entity)}`, [entity])} <a href=${`#/${view}/${entity.id}`}>${titleOf(entity)}</a></span>`,
            html`<code class="quiet">${entity.id}</code>`,
          ],
        }))}
      />`
    }
    ${
      value?.total > pageSize &&
      html`<nav class="row" aria-label="Pages">
        ${turn('Previous', offset - pageSize)}
        <span role="status">${count(offset + 1)} to ${count(Math.min(offset + pageSize, value.total))} of ${count(value.total)}</span>
        ${turn('Next', offset + pageSize)}
      </nav>`
    }
    ${(value || error) && children}`
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
export function Connect({ kind, entities, onClose, onDone }) {
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
      await send('DELETE', `${kind}/${id}`).then(
        () => left.current.delete(id),
        error => {
          failure ??= error
        },
      )
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
