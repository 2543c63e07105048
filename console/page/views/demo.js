// "Break something": faults under load, while the counts stop, catch up and add up. Only with `up --demo`.

import { html } from 'htm/preact'
import { useState } from 'preact/hooks'
import { get, send } from '../api.js'
import { Action, count, Problem, State } from '../elements.js'
import { useLoaded } from '../hooks.js'
import { Dependencies, Ledger, Rates } from './overview.js'

/** @typedef {{ load: { is_running: boolean, devices: number }, writer: string, store: { is_cut_until: number | null } }} Demo */
/** @typedef {{ holds: boolean, partitions: { recount: Record<string, number>, first: { kind: string, id: string, detail: string }[] }[] }} Verification */

/** @param {import('../session.js').ViewProps} props */
export function BreakSomething({ overview: { sample, samples, error } }) {
  // With each sample, so that both show the same moment.
  const demo = useLoaded(signal => get('console/demo', { signal }), [sample?.at])
  /** @type {Demo | undefined} */
  const state = demo.value
  const [happened, setHappened] = useState('')
  /** @type {(path: string, text: string, body?: object) => () => Promise<void>} */
  const act = (path, text, body) => async () => {
    await send('POST', `console/demo/${path}`, { body })
    setHappened(text)
    demo.reload()
  }
  const isRunning = state?.load.is_running === true
  const isCut = (state?.store.is_cut_until ?? null) !== null
  // Together, so that nothing moves.
  if (sample === undefined || (state === undefined && demo.error === undefined))
    return html`<${Problem} error=${error} /><p class="quiet">Waiting for the first figures…</p>`
  return html`<p>Start the load, break something, and watch: what comes in is kept, what is stored stops and catches up, and no message is lost or doubled.</p>
    <${Problem} error=${demo.error ?? error} />
    <div class="cards">
      <section class="card">
        <h2>Load and faults</h2>
        <div class="actions">
          <${Action} kind="main" action=${act('load', isRunning ? 'The load stopped.' : 'The load started.', { is_running: !isRunning })}>
            ${isRunning ? 'Stop the load' : `Start a load of ${state?.load.devices ?? 100} devices`}
          <//>
          <${Action} kind="danger" action=${act('writer-kill', 'The writer was killed, and starts again.')}>Kill the writer<//>
          <${Action} kind="danger" disabled=${isCut} action=${act('store-cut', 'The connection of the store is cut for ten seconds.')}>Cut the store for ten seconds<//>
          <${Action} kind="danger" action=${act('poison', 'Messages were published that cannot be decoded.')}>Publish poison<//>
        </div>
        <p role="status">${happened}</p>
      </section>
      <${Dependencies} sample=${sample} />
      <${Verify} />
    </div>
    <${Ledger} sample=${sample} />
    <${Rates} samples=${samples} />`
}

function Verify() {
  const [result, setResult] = useState(/** @type {Verification | undefined} */ (undefined))
  const verify = async () => setResult(await get('admin/verify'))
  const sum = (/** @type {string} */ of) => count((result?.partitions ?? []).reduce((sum, { recount }) => sum + (recount[of] ?? 0), 0))
  return html`<section class="card">
    <h2>Verify</h2>
    <p>Compares each message in the log with the store.</p>
    <${Action} action=${verify}>Run verify<//>
    <div role="status">
      ${
        result &&
        html`<p><${State} state=${result.holds ? 'good' : 'bad'}>${result.holds ? 'Each message is stored exactly once, or a dead letter' : 'It does not hold'}<//></p>
          <p class="quiet">${sum('received')} received: ${sum('stored')} stored, ${sum('dead_lettered')} dead letters, ${sum('filtered')} filtered, ${sum('empty')} empty.</p>
          <ul>${result.partitions.flatMap(({ first }) => first).map(({ kind, id, detail }) => html`<li>${kind}: <code>${id}</code> ${detail}</li>`)}</ul>`
      }
    </div>
  </section>`
}
