// One thing or one channel: its metadata, its key, with whom it is shared, what it is connected to, and deleting it.

import { html } from 'htm/preact'
import { useState } from 'preact/hooks'
import { get, send } from '../api.js'
import { Action, Choice, Copy, Dialog, Field, Problem, Table, timeOf } from '../elements.js'
import { onText, useLoaded } from '../hooks.js'
import { session } from '../session.js'
import { isReader, otherKind } from './activity.js'
import { Check } from './connectivity.js'
import { Letters } from './dead-letters.js'
import { Delete, EntityList } from './entities.js'
import { titleOf } from './list.js'
import { Charts } from './live.js'

/** @import { Kind } from './activity.js' */
/** @import { Entity } from './list.js' */

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
  return html`<dt>Key</dt>
    <dd class="actions">
      ${isShown && html`<code>${key}</code>`} <${Copy} text=${key} label="Copy the key" />
      <button type="button" aria-expanded=${isShown} onClick=${() => setShown(!isShown)}>${isShown ? 'Hide the key' : 'Show the key'}</button>
      <button type="button" onClick=${() => setReplacing(true)}>Replace the key</button>
      ${
        isReplacing &&
        html`<${Dialog} title="Replace the key?" onClose=${() => setReplacing(false)}>
          <p>The device needs the new key before the old one ends.</p>
          <${Choice} label="The old key ends" value=${grace} options=${Object.keys(graces)} titles=${Object.values(graces)} onChange=${setGrace} />
          <${Action} kind="danger" action=${replace}>Replace<//>
        <//>`
      }
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
  return html`<section class="card">
    <h2>Certificates</h2>
    <${Problem} error=${error} />
    ${value && html`<${Table} caption="Certificates" columns=${['Serial', 'Valid until', 'State']} rows=${rows} empty="It has none: it uses its key." />`}
  </section>`
}

/** @param {{ path: string, onKeyReplaced: () => void }} props */
function Sharing({ path, onKeyReplaced }) {
  const [user, setUser] = useState('')
  const [given, setGiven] = useState('read')
  const [replacesKey, setReplacesKey] = useState(false)
  const [outcome, setOutcome] = useState('')
  const body = { user_ids: [user.trim()], policies: given.split(',') }
  const act =
    (/** @type {string} */ method, /** @type {string} */ text, query = {}) =>
    async () => {
      setOutcome('')
      await send(method, path, { body, query })
      setOutcome(text)
      if ('rotate_key' in query) onKeyReplaced()
    }
  const share = act('POST', 'Shared.')
  const stop = replacesKey
    ? act('DELETE', 'No longer shared: the device needs its new key.', { rotate_key: true })
    : act('DELETE', 'No longer shared.')
  const isDisabled = user.trim() === ''
  return html`<section class="card">
    <h2>Share</h2>
    <p>Who may read a thing also sees its key, and can publish as the thing even after you stop sharing, until you replace the key.</p>
    <${Field} label="The user's id" hint="They copy it beside their email."><input value=${user} onInput=${onText(setUser)} /><//>
    <${Choice} label="Rights" value=${given} options=${['read', 'read,write', 'read,write,delete']} onChange=${setGiven} />
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
