// Changing your password, and with it what else should end.

import { html } from 'htm/preact'
import { send } from '../api.js'
import { Dialog, Field, Problem } from '../elements.js'
import { enteredIn, useAction } from '../hooks.js'
import { session } from '../session.js'

/** @param {{ onClose: () => void }} props */
export function ChangePassword({ onClose }) {
  const { run, isBusy, error } = useAction(async (/** @type {Record<string, string>} */ { old, password, keys }) => {
    const query = keys === undefined ? {} : { revoke_keys: true }
    await send('PATCH', 'password', { query, body: { old_password: old, password }, checksPassword: true })
    session.end('Your password is changed: sign in with the new one.')
  })

  /** @param {SubmitEvent} event */
  const submit = event => {
    event.preventDefault()
    void run(enteredIn(/** @type {HTMLFormElement} */ (event.target)))
  }

  return html`<${Dialog} title="Change password" onClose=${onClose}>
    <p>Every session of yours ends, in all browsers and programs. API keys stay valid, and so do the keys and certificates of your things.</p>
    <form class="stack" onSubmit=${submit}>
      <${Field} label="Old password"><input name="old" type="password" autocomplete="current-password" required autofocus /><//>
      <${Field} label="New password"><input name="password" type="password" autocomplete="new-password" required /><//>
      <p><label><input name="keys" type="checkbox" /> Also delete all my API keys</label></p>
      <${Problem} error=${error} />
      <button class="main" disabled=${isBusy} aria-busy=${isBusy}>Change the password</button>
    </form>
  <//>`
}
