// Signing in: with email and password, with a token, or with the link that a first start of `up` printed.

import { html } from 'htm/preact'
import { useEffect } from 'preact/hooks'
import { send } from '../api.js'
import { Field, Problem } from '../elements.js'
import { onSubmit, useAction } from '../hooks.js'
import { session } from '../session.js'

/** @param {{ home: import('../session.js').Home, code: string | undefined }} props `code`: of a sign-in link */
export function SignIn({ home, code }) {
  const hasUsers = home.services.includes('control plane')
  const { run, isBusy, error } = useAction(async (/** @type {string} */ path, /** @type {object} */ body, /** @type {boolean} */ keep) => {
    const { token } = await (await send('POST', path, { body, withoutToken: true })).json()
    session.start(token, { keep })
  })
  useEffect(() => {
    document.title = 'Sign in · Sluice'
    if (code !== undefined) void run('console/sign-in', { code }, false)
  }, [])

  const submit = onSubmit(({ token, keep, email, password }) => {
    if (hasUsers) void run('tokens', { email, password }, keep !== undefined)
    else session.start(token ?? '', { keep: keep !== undefined })
  })

  return html`<main class="narrow">
    <h1 class="actions"><img src="console/icon.svg" alt="" width="32" height="32" /> Sluice</h1>
    ${session.value.notice && html`<p class="notice" role="status">${session.value.notice}</p>`}
    <form class="card" onSubmit=${submit}>
      <h2>Sign in</h2>
      ${
        hasUsers
          ? html`<${Field} label="Email"><input name="email" type="email" autocomplete="username" required autofocus /><//>
              <${Field} label="Password"><input name="password" type="password" autocomplete="current-password" required /><//>`
          : html`<${Field} label="Token or API key" hint="This process serves no users: take a token of POST /tokens, or an API key.">
              <input name="token" type="password" autocomplete="off" required autofocus />
            <//>`
      }
      <p><label class="small"><input name="keep" type="checkbox" /> Stay signed in while this tab is open, also after a reload</label></p>
      <${Problem} error=${error} />
      <button class="main" disabled=${isBusy} aria-busy=${isBusy}>Sign in</button>
    </form>
    ${session.value.token !== undefined && html`<p><a href="#/">Stay signed in as you are</a></p>`}
    <p class="quiet small">Sluice ${home.version} · <a href="docs">API</a> · <a href="health">health</a></p>
  </main>`
}
