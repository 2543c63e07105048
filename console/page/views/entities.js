// Things and channels: all of them, to create, connect and delete, and one, with its key, certificates, shares, messages and dead letters.

import { get, send } from '../api.js'
import { Action, Card, Choice, Copy, count, Dialog, Field, Problem, Table, timeOf } from '../elements.js'
import { html, onSubmit, onText, useAction, useLoaded, useRef, useState } from '../hooks.js'
import { session } from '../session.js'
import { Check } from './connectivity.js'
import { Letters } from './dead-letters.js'
import { counted, isReader, List, none, otherKind, titleOf } from './list.js'
import { Charts } from './live.js'

/** @import { Entities, Entity, Kind } from './list.js' */

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
function EntityList({ kind, home, to }) {
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
function Delete({ kind, entities, onClose, onDone }) {
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

/** @param {import('../session.js').ViewProps} props */
export function Entities({ path, route: [id], home }) {
  const kind = /** @type {Kind} */ (path)
  return id === undefined
    ? html`<${EntityList} kind=${kind} home=${home} />`
    : html`<${One} key=${id} kind=${kind} id=${id} home=${home} />`
}

/** @param {{ kind: Kind, id: string, home: import('../session.js').Home }} props */
function One({ kind, id, home }) {
  const { value: entity, error, reload } = useLoaded(signal => get(`${kind}/${encodeURIComponent(id)}`, { signal }), [])
  const [isDeleting, setDeleting] = useState(false)
  const trail = html`<p class="trail"><a href=${`#/${kind}`}>All ${kind}</a></p>`
  if (entity === undefined) return html`${trail}<${Problem} error=${error} />`
  const above = (/** @type {string} */ channel) =>
    isReader(home) && html`<${Charts} key=${channel} id=${channel} filter=${{ publisher: entity.id }} first=${3600} height=${120} />`
  return html`${trail}
    <section class="card">
      <div class="row spread">
        <h2>${titleOf(entity)}</h2>
        <button type="button" class="danger" onClick=${() => setDeleting(true)}>Delete</button>
      </div>
      <dl class="facts">
        <dt>Id</dt><dd class="actions"><code>${entity.id}</code> <${Copy} text=${entity.id} label="Copy the id" /></dd>
        ${entity.key !== undefined && html`<${Key} thing=${entity} onReplaced=${reload} />`}
        ${entity.metadata && html`<dt>Metadata</dt><dd><pre aria-label="Metadata" tabindex="0">${JSON.stringify(entity.metadata, null, 2)}</pre></dd>`}
      </dl>
      ${kind === 'channels' && html`<p class="actions"><a class="button" href=${`#/live/${entity.id}`}>Live</a> <a class="button" href=${`#/explorer/${entity.id}`}>Explorer</a></p>`}
    </section>
    ${kind === 'things' && html`<section class="card"><h2>Messages</h2><${Check} thing=${entity} home=${home} above=${above} /></section>`}
    <div class="cards">
      <section class="card"><h2>Connected ${otherKind[kind]}</h2><${EntityList} kind=${otherKind[kind]} to=${entity} /></section>
      ${kind === 'things' && html`<${Certificates} thing=${entity} /><${Sharing} path=${`things/${entity.id}/share`} onKeyReplaced=${reload} />`}
    </div>
    ${kind === 'things' && session.value.isAdministrator && home.services.includes('writer') && html`<h2>Dead letters</h2><${Letters} publisher=${id} />`}
    ${isDeleting && html`<${Delete} kind=${kind} entities=${new Map([[id, entity]])} onClose=${() => setDeleting(false)} onDone=${() => location.assign(`#/${kind}`)} />`}`
}

const graces = { 0: 'at once', 3600: 'in an hour', 86400: 'in a day' }

/** @param {{ thing: Entity, onReplaced: () => void }} props */
function Key({ thing: { id, key = '' }, onReplaced }) {
  const [isShown, setShown] = useState(false)
  const [isReplacing, setReplacing] = useState(false)
  const [grace, setGrace] = useState('0')
  const replace = async () => {
    await send('PATCH', `things/${id}/key`, { body: { grace_seconds: Number(grace) } })
    setReplacing(false)
    onReplaced()
  }
  const dialog = html`<${Dialog} title="Replace the key?" onClose=${() => setReplacing(false)}>
    <p>The device needs the new key before the old one ends.</p>
    <${Choice} label="The old key ends" value=${grace} options=${Object.keys(graces)} titles=${Object.values(graces)} onChange=${setGrace} />
    <${Action} kind="danger" action=${replace}>Replace<//>
  <//>`
  return html`<dt>Key</dt>
    <dd class="actions">
      ${isShown && html`<code>${key}</code>`} <${Copy} text=${key} label="Copy the key" />
      <button type="button" aria-expanded=${isShown} onClick=${() => setShown(!isShown)}>${isShown ? 'Hide the key' : 'Show the key'}</button>
      <button type="button" onClick=${() => setReplacing(true)}>Replace the key</button> ${isReplacing && dialog}
    </dd>`
}

/** @param {{ thing: Entity }} props */
function Certificates({ thing }) {
  const { value, error, reload } = useLoaded(signal => get(`serials/${thing.id}`, { query: { limit: 100 }, signal }), [])
  /** @type {{ cert_serial: string, expiration: string, revocation_time?: string }[]} */
  const certificates = value?.certs ?? []
  const timeIn = (/** @type {string} */ text) => timeOf(Date.parse(text) / 1000)
  const revoke = (/** @type {string} */ serial) => () =>
    send('DELETE', 'certs/revoke', { body: { thing_id: thing.id, serial } }).then(reload)
  const rows = certificates.map(({ cert_serial: serial, expiration, revocation_time: revoked }) => ({
    key: serial,
    cells: [
      html`<code>${serial}</code>`,
      timeIn(expiration),
      revoked ? html`revoked ${timeIn(revoked)}` : html`<${Action} kind="danger" action=${revoke(serial)}>Revoke<//>`,
    ],
  }))
  return html`<${Card} title="Certificates">
    <${Problem} error=${error} />
    ${value && html`<${Table} caption="Certificates" columns=${['Serial', 'Valid until', 'State']} rows=${rows} empty="It has none: it uses its key." />`}
  <//>`
}

/** @param {{ path: string, onKeyReplaced: () => void }} props */
function Sharing({ path, onKeyReplaced }) {
  const [outcome, setOutcome] = useState('')
  const { run, isBusy, error } = useAction(async (/** @type {Record<string, string>} */ { user = '', rights = '', stops, replaces }) => {
    setOutcome('')
    const query = stops && replaces ? { rotate_key: true } : {}
    await send(stops ? 'DELETE' : 'POST', path, { body: { user_ids: [user.trim()], policies: rights.split(',') }, query })
    setOutcome(!stops ? 'Shared.' : replaces ? 'No longer shared: the device needs its new key.' : 'No longer shared.')
    if (stops && replaces) onKeyReplaced()
  })
  return html`<form class="card" onSubmit=${onSubmit(run)}>
    <h2>Share</h2>
    <p>Who may read a thing also sees its key, and can publish as the thing even after you stop sharing, until you replace the key.</p>
    <${Field} label="The user's id" hint="They copy it beside their email."><input name="user" required /><//>
    <${Field} label="Rights">
      <select name="rights">${['read', 'read,write', 'read,write,delete'].map(rights => html`<option>${rights}</option>`)}</select>
    <//>
    <p><label><input name="replaces" type="checkbox" /> Also replace the key when I stop sharing</label></p>
    <${Problem} error=${error} />
    <p class="actions"><button disabled=${isBusy}>Share</button> <button name="stops" value="yes" disabled=${isBusy}>Stop sharing</button> <span role="status">${outcome}</span></p>
  </form>`
}
