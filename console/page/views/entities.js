// Lists of things and of channels: search, pages, creating one or many, and connecting what is ticked.

import { html } from 'htm/preact'
import { useState } from 'preact/hooks'
import { get, send } from '../api.js'
import { Action, Copy, count, Dialog, Field, Problem, Table, useLoaded } from '../elements.js'

/** @typedef {'things' | 'channels'} Kind */
/** @typedef {{ id: string, name: string, key?: string, metadata?: Record<string, unknown> }} Entity */

const pageSize = 20
/** What one request may create. */
const createdMax = 1000
export const otherKind = { things: /** @type {const} */ ('channels'), channels: /** @type {const} */ ('things') }

/** @param {Entity} entity */
export function titleOf({ id, name }) {
  return name === '' ? `unnamed, ${id.slice(0, 8)}…` : name
}

/** A number of them: `1 thing`, `20 channels`. @param {number} number @param {Kind} kind */
export function counted(number, kind) {
  return `${count(number)} ${number === 1 ? kind.slice(0, -1) : kind}`
}

/** @param {{ kind: Kind }} props */
export function EntityList({ kind }) {
  const [isShared, setShared] = useState(false)
  const [ticked, setTicked] = useState(/** @type {ReadonlyMap<string, Entity>} */ (new Map()))
  const [dialog, setDialog] = useState(/** @type {'create' | 'connect' | 'delete' | undefined} */ (undefined))
  const [turn, setTurn] = useState(0)
  const close = () => setDialog(undefined)
  const again = () => setTurn(turn => turn + 1)
  const chosen = [...ticked.values()]
  return html`<div class="row tools">
      <button type="button" class="main" onClick=${() => setDialog('create')}>Create ${kind}</button>
      <button type="button" disabled=${chosen.length === 0} onClick=${() => setDialog('connect')}>Connect the ticked to ${otherKind[kind]}</button>
      <button type="button" class="danger" disabled=${chosen.length === 0} onClick=${() => setDialog('delete')}>Delete the ticked</button>
      <span class="quiet" role="status">${chosen.length > 0 && `${counted(chosen.length, kind)} ticked`}</span>
    </div>
    ${
      kind === 'things' &&
      html`<label class="tick"><input type="checkbox" checked=${isShared} onChange=${() => setShared(!isShared)} /> Also what others share with you</label>`
    }
    <${Ticks} kind=${kind} path=${kind} query=${isShared ? { shared: true } : {}} turn=${turn} ticked=${ticked} onTick=${setTicked} />
    ${
      dialog === 'create' &&
      html`<${Create} kind=${kind} onClose=${close} onCreated=${(/** @type {Entity[]} */ created) => {
        setTicked(new Map(created.map(one => [one.id, one])))
        again()
      }} />`
    }
    ${dialog === 'connect' && html`<${Connect} kind=${kind} entities=${chosen} onClose=${close} />`}
    ${dialog === 'delete' && html`<${Delete} kind=${kind} entities=${chosen} onClose=${close} onDeleted=${() => (setTicked(new Map()), again())} />`}`
}

/**
 * A list in pages, with a search by name, whose rows can be ticked.
 *
 * @param {{
 *   kind: Kind, path: string, query?: Record<string, unknown>, turn?: number, hasSearch?: boolean, ticked: ReadonlyMap<string, Entity>,
 *   onTick: (ticked: ReadonlyMap<string, Entity>) => void,
 * }} props `turn`: another number loads it again
 */
export function Ticks({ kind, path, query = {}, turn = 0, hasSearch = true, ticked, onTick }) {
  const [name, setName] = useState('')
  const [offset, setOffset] = useState(0)
  const given = { ...query, name, offset, limit: pageSize }
  const { value, error } = useLoaded(signal => get(path, { query: given, signal }), [path, JSON.stringify(given), turn])
  /** @type {Entity[]} */
  const items = value?.[kind] ?? []
  const tick = (/** @type {Entity[]} */ entities, /** @type {boolean} */ isTicked) => {
    const next = new Map(ticked)
    for (const entity of entities) {
      if (isTicked) next.set(entity.id, entity)
      else next.delete(entity.id)
    }
    onTick(next)
  }
  const isAll = items.every(({ id }) => ticked.has(id))
  const all = html`<input type="checkbox" aria-label="Tick this page" checked=${isAll} onChange=${() => tick(items, !isAll)} />`
  return html`${
    hasSearch &&
    html`<${Field} label="Search by name"
        ><input type="search" value=${name} onInput=${(/** @type {any} */ event) => (setName(event.target.value), setOffset(0))}
      /><//>`
  }
    <${Problem} error=${error} />
    ${
      value &&
      html`<${Table}
        caption=${kind}
        columns=${[all, 'Name', 'Id']}
        empty=${name === '' ? `There are no ${kind} yet.` : `No name contains “${name}”.`}
        rows=${items.map(entity => ({
          key: entity.id,
          cells: [
            html`<input type="checkbox" aria-label=${`Tick ${titleOf(entity)}`} checked=${ticked.has(entity.id)}
              onChange=${() => tick([entity], !ticked.has(entity.id))} />`,
            html`<a href=${`#/${kind}/${entity.id}`}>${titleOf(entity)}</a>`,
            html`<code>${entity.id}</code>`,
          ],
        }))}
      />
      <${Pages} total=${value.total} offset=${offset} onOffset=${setOffset} />`
    }`
}

/** @param {{ total: number, offset: number, onOffset: (offset: number) => void }} props */
function Pages({ total, offset, onOffset }) {
  if (total <= pageSize && offset === 0) return null
  return html`<nav class="row pages" aria-label="Pages">
    <button type="button" disabled=${offset === 0} onClick=${() => onOffset(Math.max(0, offset - pageSize))}>Previous</button>
    <span role="status">${count(Math.min(offset + 1, total))} to ${count(Math.min(offset + pageSize, total))} of ${count(total)}</span>
    <button type="button" disabled=${offset + pageSize >= total} onClick=${() => onOffset(offset + pageSize)}>Next</button>
  </nav>`
}

/** @param {{ kind: Kind, onClose: () => void, onCreated: (created: Entity[]) => void }} props */
function Create({ kind, onClose, onCreated }) {
  const [text, setText] = useState('')
  const [many, setMany] = useState(1)
  const [created, setCreated] = useState(/** @type {Entity[] | undefined} */ (undefined))
  const names = namesOf(text, many)
  if (created !== undefined) {
    const lines = created.map(({ id, name, key }) => [id, name, ...(key === undefined ? [] : [key])].map(csv).join(','))
    return html`<${Dialog} title=${`${counted(created.length, kind)} created`} onClose=${onClose}>
      <p>They are ticked in the list, to connect them.</p>
      <${Copy} text=${lines.join('\n')} label=${kind === 'things' ? 'Copy ids, names and keys as CSV' : 'Copy ids and names as CSV'} />
    <//>`
  }
  const create = async () => {
    const response = await send('POST', `${kind}/bulk`, { body: names.map(name => ({ name })) })
    const created = (await response.json())[kind]
    setCreated(created)
    onCreated(created)
  }
  const problem = names.length > createdMax ? `At most ${count(createdMax)} at a time.` : undefined
  return html`<${Dialog} title=${`Create ${kind}`} onClose=${onClose}>
    <${Field} label="Names" hint="One a line." problem=${problem}>
      <textarea rows="5" value=${text} onInput=${(/** @type {any} */ event) => setText(event.target.value)}></textarea>
    <//>
    <${Field} label="How many" hint="Of one name, with a number after each: pump-1, pump-2, …">
      <input type="number" min="1" max=${createdMax} value=${many} onInput=${(/** @type {any} */ event) => setMany(event.target.valueAsNumber || 1)} />
    <//>
    <${Action} kind="main" disabled=${names.length === 0 || problem !== undefined} action=${create}>Create ${counted(names.length, kind)}<//>
  <//>`
}

/** @param {string} text one name a line @param {number} many of each, numbered if above 1 */
function namesOf(text, many) {
  const names = text
    .split('\n')
    .map(line => line.trim())
    .filter(line => line !== '')
  if (many === 1) return names
  const numbers = Array.from({ length: Math.min(many, createdMax + 1) }, (_, at) => at + 1)
  return names.flatMap(name => numbers.map(number => `${name}-${number}`)).slice(0, createdMax + 1)
}

/** @param {string} text */
function csv(text) {
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}

/** @param {{ kind: Kind, entities: Entity[], onClose: () => void, onDone?: () => void }} props */
export function Connect({ kind, entities, onClose, onDone = () => {} }) {
  const [ticked, setTicked] = useState(/** @type {ReadonlyMap<string, Entity>} */ (new Map()))
  const other = otherKind[kind]
  const connect = async () => {
    const ids = { [`${kind.slice(0, -1)}_ids`]: entities.map(({ id }) => id), [`${other.slice(0, -1)}_ids`]: [...ticked.keys()] }
    await send('POST', 'connect', { body: ids })
    onDone()
    onClose()
  }
  const what = entities.length === 1 ? titleOf(/** @type {Entity} */ (entities[0])) : counted(entities.length, kind)
  return html`<${Dialog} title=${`Connect ${what} to ${other}`} onClose=${onClose}>
    <p>A thing may publish to a channel, and read there what it published, once both are connected. What is connected already stays so.</p>
    <${Ticks} kind=${other} path=${other} ticked=${ticked} onTick=${setTicked} />
    <${Action} kind="main" disabled=${ticked.size === 0} action=${connect}>Connect to ${counted(ticked.size, other)}<//>
  <//>`
}

const meaning = {
  things:
    'Its key is refused everywhere at once, and its certificates are revoked. Its messages stay in the store, where the owner of the channel reads them.',
  channels:
    'Publishing to it and reading it are refused at once, and live streams end. Its messages stay in the store until their retention ends, where no user reads them.',
}

/** @param {{ kind: Kind, entities: Entity[], onClose: () => void, onDeleted: () => void }} props */
export function Delete({ kind, entities, onClose, onDeleted }) {
  const [done, setDone] = useState(0)
  const remove = async () => {
    for (const { id } of entities.slice(done)) {
      await send('DELETE', `${kind}/${id}`)
      setDone(done => done + 1)
    }
    onDeleted()
    onClose()
  }
  return html`<${Dialog} title=${`Delete ${counted(entities.length, kind)}?`} onClose=${done > 0 ? () => ((onDeleted(), onClose())) : onClose}>
    <ul>${entities.slice(0, 10).map(entity => html`<li>${titleOf(entity)}</li>`)}</ul>
    ${entities.length > 10 && html`<p>and ${count(entities.length - 10)} more</p>`}
    <p>${meaning[kind]} This cannot be undone.</p>
    <${Action} kind="danger" action=${remove}>Delete ${counted(entities.length, kind)}<//>
    ${done > 0 && html`<span role="status">${count(done)} deleted</span>`}
  <//>`
}
