// What your account opens: your API keys, and changing your password, and with it what else should end.

import { html } from 'htm/preact'
import { get, send } from '../api.js'
import { Action, count, Dialog, Field, Named, Problem, Table, timeOf } from '../elements.js'
import { onSubmit, useAction, useLoaded } from '../hooks.js'
import { session } from '../session.js'

/** @typedef {{ id: string, name: string, access: 'all' | 'read' | 'publish', channels?: string[], expires_at?: string }} ApiKey */

/** @param {{ onClose: () => void }} props */
export function ApiKeys({ onClose }) {
  const { value, error, reload } = useLoaded(signal => get('keys', { query: { limit: 100 }, signal }), [])
  /** @type {ApiKey[]} */
  const keys = value?.keys ?? []
  const channelsOf = (/** @type {string[]} */ ids) =>
    html`${ids.slice(0, 5).map(id => html`<${Named} kind="channels" id=${id} />${' '}`)} ${ids.length > 5 && `and ${ids.length - 5} more`}`
  return html`<${Dialog} title="API keys" onClose=${onClose}>
    <p>Programs send them in place of a token. <a href="docs">POST /keys</a> issues one, with what it may do, its channels and its end.</p>
    <${Problem} error=${error} />
    ${value?.total > keys.length && html`<p class="notice">These are the first ${count(keys.length)} of ${count(value.total)}.</p>`}
    ${
      value &&
      html`<${Table} caption="API keys" columns=${['Name', 'May', 'Channels', 'Until', html`<span class="unseen">Revoke</span>`]} empty="You have none."
        rows=${keys.map(({ id, name, access, channels, expires_at: end }) => ({
          key: id,
          cells: [
            html`<span title=${id}>${name || `${id.slice(0, 8)}…`}</span>`,
            access !== 'all' ? access : channels ? 'read, publish' : 'all that you may',
            channels ? channelsOf(channels) : 'all',
            end ? timeOf(Date.parse(end) / 1000) : 'revoked',
            html`<${Action} kind="danger" action=${() => send('DELETE', `keys/${id}`).then(reload)}>Revoke<//>`,
          ],
        }))} />`
    }
  <//>`
}

/** @param {{ onClose: () => void }} props */
export function ChangePassword({ onClose }) {
  const { run, isBusy, error } = useAction(async (/** @type {Record<string, string>} */ { old, password, keys }) => {
    const query = keys === undefined ? {} : { revoke_keys: true }
    await send('PATCH', 'password', { query, body: { old_password: old, password }, checksPassword: true })
    session.end('Your password is changed: sign in with the new one.')
  })

  return html`<${Dialog} title="Change password" onClose=${onClose}>
    <p>Every session of yours ends, in all browsers and programs. API keys stay valid, and so do the keys and certificates of your things.</p>
    <form class="stack" onSubmit=${onSubmit(run)}>
      <${Field} label="Old password"><input name="old" type="password" autocomplete="current-password" required autofocus /><//>
      <${Field} label="New password"><input name="password" type="password" autocomplete="new-password" required /><//>
      <p><label><input name="keys" type="checkbox" /> Also delete all my API keys</label></p>
      <${Problem} error=${error} />
      <button class="main" disabled=${isBusy} aria-busy=${isBusy}>Change the password</button>
    </form>
  <//>`
}
