// Dead letters for administrators: by rule and time, one in full, and replaying and dropping them.

import { html } from 'htm/preact'
import { useState } from 'preact/hooks'
import { get, send } from '../api.js'
import { Action, count, Dialog, Field, Problem, State, Table, timeOf, useLoaded } from '../elements.js'
import { Named } from '../names.js'

/**
 * @typedef {{
 *   id: string, state: 'open' | 'replayed' | 'dropped', topic: string, stage: string, rule: string, reason: string, record?: number, hint?: string,
 *   channel: string, subtopic: string, publisher: string, protocol: string, content_type: string, created: string,
 *   payload_bytes: number, shortened_bytes?: number, partial?: boolean,
 * }} Letter
 */
/** @typedef {Letter & { headers: { name: string, value: string | null, base64?: boolean }[], payload: string }} FullLetter `payload` is base64 */
/** @typedef {{ state: 'none' | 'running' | 'done' | 'failed', job: number, done: number, total: number, error?: string,
 *   report?: { replayed: number, left: number, reasons: { id: string, reason: string }[], missing: string[] } }} Replay */

/** The most that one request lists, and that one replay takes by id. */
const listedMax = 1000
const shownMax = 100
const payloadShownMax = 16_384
const pollMs = 300

/** @param {import('../session.js').ViewProps} props */
export function DeadLetters({ route }) {
  const [first, rule] = route
  if (first !== undefined && first !== 'rule') return html`<${Full} key=${first} id=${first} />`
  return html`<${List} key=${rule} rule=${rule ?? ''} />`
}

/** @param {Letter} letter */
const secondsOf = ({ created }) => Number(created) / 1e9

/** @param {{ rule: string }} props */
function List({ rule: asked }) {
  const [rule, setRule] = useState(asked)
  const [all, setAll] = useState(false)
  const [from, setFrom] = useState('')
  const [to, setTo] = useState('')
  const [dialog, setDialog] = useState(/** @type {'replay' | 'drop' | undefined} */ (undefined))
  const { value, error, reload } = useLoaded(signal => get('admin/dead-letters', { query: { all, limit: listedMax }, signal }), [all])
  /** @type {Letter[]} */
  const letters = (value?.letters ?? []).toReversed()
  const rules = new Map(/** @type {[string, number][]} */ ([]))
  for (const letter of letters) rules.set(letter.rule, (rules.get(letter.rule) ?? 0) + 1)
  const isWithin = (/** @type {number} */ at) => (from === '' || at >= Date.parse(from) / 1000) && (to === '' || at < Date.parse(to) / 1000)
  const found = letters.filter(letter => (rule === '' || letter.rule === rule) && isWithin(secondsOf(letter)))
  const input = (/** @type {(text: string) => void} */ set) => (/** @type {any} */ event) => set(event.target.value)
  return html`<div class="cards top">
      <${Field} label="Rule">
        <select value=${rule} onChange=${input(setRule)}>
          <option value="">every rule</option>
          ${rule !== '' && !rules.has(rule) && html`<option value=${rule}>${rule} (0)</option>`}
          ${[...rules].map(([name, letters]) => html`<option value=${name}>${name} (${count(letters)})</option>`)}
        </select>
      <//>
      <${Field} label="Received since"><input type="datetime-local" value=${from} onInput=${input(setFrom)} /><//>
      <${Field} label="Received before"><input type="datetime-local" value=${to} onInput=${input(setTo)} /><//>
      <label class="tick"><input type="checkbox" checked=${all} onChange=${() => setAll(!all)} /> Also the replayed and dropped</label>
    </div>
    <p class="row">
      <button type="button" class="main" disabled=${found.length === 0} onClick=${() => setDialog('replay')}>Replay these ${count(found.length)}</button>
      <button type="button" class="danger" disabled=${found.length === 0} onClick=${() => setDialog('drop')}>Drop these ${count(found.length)}</button>
      <button type="button" onClick=${reload}>Look again</button>
    </p>
    <${Problem} error=${error} />
    ${value?.total > letters.length && html`<p class="notice">These are the newest ${count(letters.length)} of ${count(value.total)}.</p>`}
    ${
      value &&
      html`<${Table}
        caption="Dead letters"
        columns=${['Message', 'Received', 'Rule', 'Reason', 'Channel', 'Thing', 'State']}
        empty=${letters.length === 0 ? 'None is open: every message was stored.' : 'None matches.'}
        rows=${found.slice(0, shownMax).map(letter => ({
          key: letter.id,
          cells: [
            html`<a href=${`#/dead-letters/${letter.id}`}>${letter.id}</a>`,
            timeOf(secondsOf(letter)),
            letter.rule,
            letter.reason,
            html`<${Named} kind="channels" id=${letter.channel} />`,
            html`<${Named} kind="things" id=${letter.publisher} />`,
            letter.state,
          ],
        }))}
      />`
    }
    ${found.length > shownMax && html`<p class="quiet">The newest ${shownMax} of ${count(found.length)} are shown.</p>`}
    ${dialog === 'replay' && html`<${Replaying} letters=${found} onClose=${() => setDialog(undefined)} onDone=${reload} />`}
    ${dialog === 'drop' && html`<${Dropping} letters=${found} onClose=${() => setDialog(undefined)} onDone=${reload} />`}`
}

/** @param {{ id: string }} props */
function Full({ id }) {
  const { value, error, reload } = useLoaded(signal => get(`admin/dead-letters/${encodeURIComponent(id)}`, { signal }), [])
  const [dialog, setDialog] = useState(/** @type {'replay' | 'drop' | undefined} */ (undefined))
  const close = () => setDialog(undefined)
  /** @type {FullLetter[]} */
  const letters = value?.letters ?? []
  return html`<p><a href="#/dead-letters">All dead letters</a></p>
    <${Problem} error=${error} />
    ${letters.map(letter => html`<${Card} letter=${letter} />`)}
    ${
      letters.length > 0 &&
      html`<p class="row">
        <button type="button" class="main" onClick=${() => setDialog('replay')}>Replay</button>
        <button type="button" class="danger" onClick=${() => setDialog('drop')}>Drop</button>
      </p>`
    }
    ${dialog === 'replay' && html`<${Replaying} letters=${letters.slice(0, 1)} onClose=${close} onDone=${reload} />`}
    ${dialog === 'drop' && html`<${Dropping} letters=${letters.slice(0, 1)} onClose=${close} onDone=${reload} />`}`
}

/** @param {{ letter: FullLetter }} props */
function Card({ letter }) {
  const bytes = Uint8Array.from(atob(letter.payload), character => character.charCodeAt(0))
  const shown = bytes.subarray(0, payloadShownMax)
  const facts = {
    State: html`<${State} state=${letter.state === 'open' ? 'bad' : 'good'}>${letter.state}<//>${letter.partial && ', some of its rows may be in the store'}`,
    Rule: letter.rule,
    Reason: letter.reason,
    Hint: letter.hint,
    Received: timeOf(secondsOf(letter)),
    Channel: html`<${Named} kind="channels" id=${letter.channel} />`,
    Thing: html`<${Named} kind="things" id=${letter.publisher} />`,
    Subtopic: letter.subtopic,
    'Content type': letter.content_type,
    Stage: letter.stage,
  }
  const given = Object.entries(facts).filter(([, fact]) => fact !== undefined && fact !== '')
  return html`<section class="card">
    <h2>${letter.id}</h2>
    <dl class="facts">${given.map(([name, fact]) => html`<dt>${name}</dt><dd>${fact}</dd>`)}</dl>
    <h3>Payload, ${count(letter.payload_bytes)} bytes</h3>
    ${letter.shortened_bytes !== undefined && html`<p class="notice">It had ${count(letter.shortened_bytes)} bytes, too many for its dead letter: it is in its log, at this id.</p>`}
    ${shown.length < bytes.length && html`<p class="notice">Shown are the first ${count(shown.length)} bytes.</p>`}
    <pre tabindex="0" aria-label="Payload as text">${new TextDecoder().decode(shown)}</pre>
    <pre class="hex" tabindex="0" aria-label="Payload in hexadecimal">${hexOf(shown)}</pre>
    <details>
      <summary>Headers</summary>
      <${Table} caption="Headers" columns=${['Name', 'Value']} empty="None."
        rows=${letter.headers.map(({ name, value, base64 }, at) => ({ key: `${at}`, cells: [name, `${value ?? 'null'}${base64 ? ' (base64)' : ''}`] }))} />
    </details>
  </section>`
}

/** As `hexdump -C` prints it. @param {Uint8Array} bytes */
function hexOf(bytes) {
  const lines = []
  for (let at = 0; at < bytes.length; at += 16) {
    const row = [...bytes.subarray(at, at + 16)]
    const hex = row.map(byte => byte.toString(16).padStart(2, '0')).join(' ')
    const text = row.map(byte => (byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : '.')).join('')
    lines.push(`${at.toString(16).padStart(8, '0')}  ${hex.padEnd(47)}  ${text}`)
  }
  return lines.join('\n')
}

/**
 * Runs a replay to its end.
 *
 * @param {{ ids: string[], dry_run: boolean }} body
 * @param {(replay: Replay) => void} onProgress
 * @returns {Promise<NonNullable<Replay['report']>>}
 */
async function replay(body, onProgress) {
  /** @type {Replay} */
  let status = await (await send('POST', 'admin/dead-letters/replay', { body })).json()
  const { job } = status
  while (status.job === job && status.state === 'running') {
    onProgress(status)
    await new Promise(resolve => setTimeout(resolve, pollMs))
    status = await get('admin/dead-letters/replay')
  }
  if (status.job !== job) throw new Error('Another replay was started meanwhile, so the end of this one is unknown: look again.')
  if (status.state === 'failed' || status.report === undefined) throw new Error(status.error ?? 'The replay ended without a report.')
  return status.report
}

/** @param {{ letters: readonly Letter[], onClose: () => void, onDone: () => void }} props */
function Replaying({ letters, onClose, onDone }) {
  const ids = letters.map(({ id }) => id)
  const [progress, setProgress] = useState(/** @type {Replay | undefined} */ (undefined))
  const [isDone, setDone] = useState(false)
  const run = async (/** @type {boolean} */ isDry) => {
    const report = await replay({ ids, dry_run: isDry }, setProgress)
    setProgress(undefined)
    return report
  }
  const would = useLoaded(() => run(true), [])
  const [report, setReport] = useState(would.value)
  const shown = isDone ? report : would.value
  const start = async () => {
    setReport(await run(false))
    setDone(true)
    onDone()
  }
  return html`<${Dialog} title=${`Replay ${letters.length === 1 ? ids[0] : `${count(letters.length)} dead letters`}`} onClose=${onClose}>
    <p>Each is decoded again as the writer is set now, and stored at its own position, once. Remove the cause first.</p>
    ${progress && html`<progress aria-label="Replay" max=${Math.max(1, progress.total)} value=${progress.done}></progress>`}
    <${Problem} error=${would.error} />
    <div role="status">
      ${would.isLoading && html`<p class="quiet">Looking what a replay would do…</p>`}
      ${shown && html`<p><${State} state=${shown.left === 0 ? 'good' : 'bad'}>${count(shown.replayed)} ${isDone ? 'stored' : 'would be stored'}, ${count(shown.left)} ${isDone ? 'stay open' : 'would stay open'}<//></p>`}
    </div>
    ${shown && shown.reasons.length > 0 && html`<ul>${shown.reasons.map(({ id, reason }) => html`<li><code>${id}</code> ${reason}</li>`)}</ul>`}
    ${isDone ? html`<button type="button" class="main" onClick=${onClose}>Close</button>` : html`<${Action} kind="main" disabled=${!(would.value?.replayed ?? 0)} action=${start}>Replay<//>`}
  <//>`
}

/** @param {{ letters: readonly Letter[], onClose: () => void, onDone: () => void }} props */
function Dropping({ letters, onClose, onDone }) {
  const partial = letters.filter(({ partial }) => partial).length
  const drop = async () => {
    await send('POST', 'admin/dead-letters/drop', { body: { ids: letters.map(({ id }) => id) } })
    onDone()
    onClose()
  }
  return html`<${Dialog} title=${`Drop ${letters.length === 1 ? letters[0]?.id : `${count(letters.length)} dead letters`}?`} onClose=${onClose}>
    <p>The messages are not stored, and no longer listed as open. They stay in the log of dead letters until its retention ends, and can be replayed until then.</p>
    ${partial > 0 && html`<p class="notice">Some rows of ${count(partial)} of them are in the store, and stay there.</p>`}
    <${Action} kind="danger" action=${drop}>Drop ${count(letters.length)}<//>
  <//>`
}
