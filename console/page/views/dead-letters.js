// Dead letters for administrators: by rule and time, one in full, and replaying and dropping them.

import { get, send } from '../api.js'
import { Action, Card, Choice, count, Dialog, Field, named, Problem, State, Table, timeOf } from '../elements.js'
import { html, onText, useLoaded, useRef, useState } from '../hooks.js'

/**
 * `payload` is base64, and only in one that is shown in full.
 * @typedef {{
 *   id: string, state: 'open' | 'replayed' | 'dropped' | 'erased', stage: string, rule: string, reason: string, hint?: string, channel: string, subtopic: string,
 *   publisher: string, content_type: string, created: string, payload_bytes: number, shortened_bytes?: number, partial?: boolean, payload: string,
 * }} Letter
 */
/** @typedef {{ replayed: number, left: number, reasons: { id: string, reason: string }[] }} Report */

/** The first is the most that one request lists, and that one replay takes by id. */
const [listedMax, shownMax, payloadShownMax, pollMs] = [1000, 100, 16_384, 300]
const columns = ['Message', 'Received', 'Rule', 'Reason', 'Channel', 'Thing', 'State']
const facts = /** @type {const} */ (['rule', 'reason', 'hint', 'subtopic', 'content_type', 'stage'])

/** @param {import('../session.js').ViewProps} props */
export function DeadLetters({ route: [first, rule = ''] }) {
  return first === undefined || first === 'rule'
    ? html`<${Letters} key=${rule} asked=${rule} />`
    : html`<${Full} key=${first} id=${first} />`
}

/** @param {Letter} letter */
const secondsOf = ({ created }) => Number(created) / 1e9

const empty =
  'None is open: every message was stored. A message that cannot be decoded or stored comes here, untouched, with the rule that it breaks; once the cause is gone, replay it.'

/** @param {{ asked?: string, publisher?: string }} props `asked`: a rule; `publisher`: of this thing only */
export function Letters({ asked = '', publisher }) {
  const [rule, setRule] = useState(asked)
  const [all, setAll] = useState(false)
  const [from, setFrom] = useState('')
  const [to, setTo] = useState('')
  const { value, error, reload } = useLoaded(
    signal => get('admin/dead-letters', { query: { all, rule: rule || undefined, limit: listedMax }, signal }),
    [all, rule],
  )
  /** @type {Letter[]} */
  const letters = (value?.letters ?? []).toReversed()
  // Those seen so far: the list has only letters of the chosen one.
  const { current: rules } = useRef(new Set(['', asked]))
  for (const letter of letters) rules.add(letter.rule)
  const isWithin = (/** @type {number} */ at) => (from === '' || at >= Date.parse(from) / 1000) && (to === '' || at < Date.parse(to) / 1000)
  const found = letters.filter(letter => isWithin(secondsOf(letter)) && (publisher ?? letter.publisher) === letter.publisher)
  const rows = found.slice(0, shownMax).map(({ id, rule, reason, channel, publisher, state, created }) => ({
    key: id,
    cells: [
      html`<a href=${`#/dead-letters/${id}`}>${id}</a>`,
      timeOf(Number(created) / 1e9),
      rule,
      reason,
      named('channels', channel),
      named('things', publisher),
      state,
    ],
  }))
  return html`<div class="row end">
      <${Choice} label="Rule" value=${rule} options=${[...rules]} titles=${['every rule']} onChange=${setRule} />
      <${Field} label="Received since"><input type="datetime-local" value=${from} onInput=${onText(setFrom)} /><//>
      <${Field} label="Received before"><input type="datetime-local" value=${to} onInput=${onText(setTo)} /><//>
      <label><input type="checkbox" checked=${all} onChange=${() => setAll(!all)} /> Also the replayed and dropped</label>
    </div>
    <div class="actions">
      <${Resolve} letters=${found} onDone=${reload} />
      <button type="button" onClick=${reload}>Look again</button>
    </div>
    <${Problem} error=${error} />
    ${value?.total > letters.length && html`<p class="notice">These are the newest ${count(letters.length)} of ${count(value.total)}.</p>`}
    ${value && html`<${Table} caption="Dead letters" columns=${columns} empty=${letters.length === 0 ? empty : 'None of these matches.'} rows=${rows} />`}
    ${found.length > shownMax && html`<p class="quiet">The newest ${shownMax} of ${count(found.length)} are shown.</p>`}`
}

/** @param {{ id: string }} props */
function Full({ id }) {
  const { value, error, reload } = useLoaded(signal => get(`admin/dead-letters/${id}`, { signal }), [])
  /** @type {Letter[]} */
  const letters = value?.letters ?? []
  return html`<p class="trail"><a href="#/dead-letters">All dead letters</a></p>
    <${Problem} error=${error} />
    ${letters.map(letter => html`<${Letter} letter=${letter} />`)}
    ${letters.length > 0 && html`<p class="actions"><${Resolve} letters=${letters.slice(0, 1)} onDone=${reload} /></p>`}`
}

/** @param {{ letter: Letter }} props */
function Letter({ letter }) {
  const bytes = Uint8Array.from(atob(letter.payload), character => character.charCodeAt(0))
  const shown = bytes.subarray(0, payloadShownMax)
  return html`<${Card} title=${letter.id}>
    <p>
      <${State} state=${letter.state === 'open' ? 'bad' : 'good'}>${letter.state}<//>${letter.partial && ', some of its rows may be in the store'}:
      received ${timeOf(secondsOf(letter))} of ${named('things', letter.publisher)} on ${named('channels', letter.channel)}
    </p>
    <dl class="facts">${facts.map(name => letter[name] && html`<dt>${name.replace('_', ' ')}</dt><dd>${letter[name]}</dd>`)}</dl>
    <h3>Payload, ${count(letter.payload_bytes)} bytes</h3>
    ${letter.shortened_bytes !== undefined && html`<p class="notice">It had ${count(letter.shortened_bytes)} bytes, too many for its dead letter: it is in its log, at this id.</p>`}
    ${shown.length < bytes.length && html`<p class="notice">Shown are the first ${count(shown.length)} bytes.</p>`}
    <pre tabindex="0" aria-label="Payload as text">${new TextDecoder().decode(shown)}</pre>
    <pre tabindex="0" aria-label="Payload in hexadecimal">${Array.from(shown, byte => byte.toString(16).padStart(2, '0')).join(' ')}</pre>
  <//>`
}

/** Buttons that replay and drop these. @param {{ letters: readonly Letter[], onDone: () => void }} props */
function Resolve({ letters, onDone }) {
  const [dialog, setDialog] = useState('')
  const button = (/** @type {string} */ kind, /** @type {string} */ title) =>
    html`<button type="button" class=${kind} disabled=${letters.length === 0} onClick=${() => setDialog(title)}>${title} ${count(letters.length)}</button>`
  const props = { letters, onDone, onClose: () => setDialog('') }
  return html`${button('main', 'Replay')} ${button('danger', 'Drop')}
    ${dialog === 'Replay' && html`<${Replay} ...${props} />`} ${dialog === 'Drop' && html`<${Drop} ...${props} />`}`
}

/** Runs a replay to its end. @param {{ ids: string[], dry_run: boolean }} body @returns {Promise<Report>} */
async function replay(body) {
  let status = await (await send('POST', 'admin/dead-letters/replay', { body })).json()
  const { job } = status
  while (status.job === job && status.state === 'running') {
    await new Promise(resolve => setTimeout(resolve, pollMs))
    status = await get('admin/dead-letters/replay')
  }
  if (status.job !== job) throw new Error('Another replay was started meanwhile, so the end of this one is unknown: look again.')
  if (status.report === undefined) throw new Error(status.error ?? 'The replay ended without a report.')
  return status.report
}

/** @param {{ letters: readonly Letter[], onClose: () => void, onDone: () => void }} props */
function Replay({ letters, onClose, onDone }) {
  const [ids] = useState(letters.map(({ id }) => id))
  const would = useLoaded(() => replay({ ids, dry_run: true }), [])
  const [done, setDone] = useState(/** @type {Report | undefined} */ (undefined))
  const report = done ?? would.value
  const start = async () => {
    setDone(await replay({ ids, dry_run: false }))
    onDone()
  }
  return html`<${Dialog} title=${`Replay ${count(ids.length)}`} onClose=${onClose}>
    <p>Each is decoded again as the writer is set now, and stored at its own position, once. Remove the cause first.</p>
    <${Problem} error=${would.error} />
    <div role="status">
      ${would.isLoading && html`<p class="quiet">Looking what a replay would do…</p>`}
      ${report && html`<p><${State} state=${report.left === 0 ? 'good' : 'bad'}>${count(report.replayed)} ${done ? 'stored' : 'would be stored'}, ${count(report.left)} ${done ? 'stay open' : 'would stay open'}<//></p>`}
      <ul>${report?.reasons.map(({ id, reason }) => html`<li><code>${id}</code> ${reason}</li>`)}</ul>
    </div>
    <${Action} kind="main" disabled=${done !== undefined || !would.value?.replayed} action=${start}>Replay<//>
  <//>`
}

/** @param {{ letters: readonly Letter[], onClose: () => void, onDone: () => void }} props */
function Drop({ letters, onClose, onDone }) {
  const partial = letters.filter(({ partial }) => partial).length
  const drop = async () => {
    await send('POST', 'admin/dead-letters/drop', { body: { ids: letters.map(({ id }) => id) } })
    onClose()
    onDone()
  }
  return html`<${Dialog} title=${`Drop ${count(letters.length)}?`} onClose=${onClose}>
    <p>The messages are not stored, and no longer listed as open. They stay in the log of dead letters until its retention ends, and can be replayed until then.</p>
    ${partial > 0 && html`<p class="notice">Some rows of ${count(partial)} of them are in the store, and stay there.</p>`}
    <${Action} kind="danger" action=${drop}>Drop ${count(letters.length)}<//>
  <//>`
}
