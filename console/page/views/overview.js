// The overview for administrators: what comes in and is stored, as it happens; on an empty platform the first steps. With `up --demo` also the same while
// something breaks.

import { get, send } from '../api.js'
import { Bands, Chart } from '../chart.js'
import { Action, Card, count, named, Problem, rough, State, Table, timeOf } from '../elements.js'
import { html, useAction, useEffect, useFollowed, useLoaded, useState } from '../hooks.js'
import { FirstSteps } from './first-steps.js'

/** @import { Line, Range } from '../chart.js' */
/** @import { Sample } from '../session.js' */

const samplesMax = 300
/** The first seconds would otherwise be as wide as the chart. */
const spanMin = 15
/** Rates are of several samples, one a second; more seconds without one are an outage of the server, and a fault shows within as many. */
const [rateSamples, gapMin, faultMin] = [5, 3, 3]
/** What the counts mean, and the view of each: the way of a message, and what is beside it. @type {Record<string, readonly [string, string?]>} */
const meanings = {
  received: ['Messages that were accepted, and are in the log.', 'explorer'],
  waiting: ['Messages in the log that the writer has not stored yet.'],
  stored: ['Messages whose records are in the store, each once.', 'explorer'],
  dead_lettered: ['Messages that could not be decoded or stored: they are kept, with the rule that they break.', 'dead-letters'],
  filtered: ['Messages that no subject of the writer matches.'],
  empty: ['Messages without a record.'],
  lost: ['Messages that left the log before the writer had read them.'],
}
const names = /** @type {(keyof Sample['ledger'])[]} */ (Object.keys(meanings))
const nameOf = (/** @type {string} */ name) => name.replace('_lettered', ' letters')

/** What the platform reports each second, oldest first. @param {import('../session.js').Home | undefined} home undefined for those who may not see it @returns {import('../session.js').Samples} */
export function useSamples(home) {
  const [samples, setSamples] = useState(/** @type {readonly Sample[]} */ ([]))
  const state = useFollowed(home?.links['overview']?.replace(/^\//, ''), ({ event, data }) => {
    if (event === 'overview') setSamples(samples => [...samples, JSON.parse(data)].slice(-samplesMax))
  })
  return { ...state, samples, sample: samples.at(-1) }
}

/** @param {import('../session.js').ViewProps} props */
export function Overview({ home, overview }) {
  const { isOpen, error } = overview
  const [paused, setPaused] = useState(/** @type {readonly Sample[] | undefined} */ (undefined))
  const [isFirst, setFirst] = useState(/** @type {boolean | undefined} */ (undefined))
  const samples = paused ?? overview.samples
  const sample = samples.at(-1)
  if (sample === undefined) return html`<${Problem} error=${error} /><p class="quiet">Waiting for the first figures…</p>`
  if (isFirst === undefined) setFirst(sample.ledger.received === 0)
  if (isFirst) return html`<${FirstSteps} home=${home} sample=${sample} onDone=${() => setFirst(false)} />`
  const letters = Object.entries(sample.dead_letters).sort(([, one], [, other]) => other - one)
  const state = paused ? 'paused' : isOpen ? 'up to date' : 'connecting…'
  return html`<${Problem} error=${error} />
    <p class="row">
      <${State} state=${isOpen && !paused ? 'good' : 'waiting'}>${state}<//> <span class="quiet">${timeOf(sample.at)}</span>
      <button type="button" onClick=${() => setPaused(paused ? undefined : overview.samples)}>${paused ? 'Continue' : 'Pause'}</button>
    </p>
    <${Ledger} samples=${samples} />
    <${Rates} samples=${samples} />
    <div class="cards">
      <${Dependencies} samples=${samples} />
      <${Card} title="Dead letters by rule">
        <${Table} caption="Dead letters by rule" columns=${['Rule', 'Open']} empty="None is open: every message was stored."
          rows=${letters.map(([rule, open]) => ({ key: rule, cells: [html`<a href=${`#/dead-letters/rule/${rule}`}>${rule}</a>`, count(open)] }))} />
      <//>
    </div>
    <${Card} title="Newest messages">
      <${Table} caption="Newest messages" columns=${['Received', 'Channel', 'Thing', 'Subtopic', 'Payload']} empty="None is in the log."
        rows=${sample.newest.map(({ id, time, channel, publisher, subtopic, payload }) => ({
          key: id,
          cells: [timeOf(time), named('channels', channel), named('things', publisher), subtopic, html`<code>${payload}</code>`],
        }))} />
    <//>`
}

/** The way of messages, from the log to the store, with how many a second; and what became of the others. @param {{ samples: readonly Sample[] }} props */
function Ledger({ samples }) {
  const [before, { at, lag, ledger }] = /** @type {[Sample, Sample]} */ ([samples.at(-1 - rateSamples) ?? samples[0], samples.at(-1)])
  const { received, ...parts } = ledger
  const isWhole = Object.values(parts).reduce((sum, value) => sum + value, 0) === received
  const part = (/** @type {string} */ sign) => (/** @type {keyof Sample['ledger']} */ name) => {
    const [text, view] = meanings[name] ?? []
    const rate =
      name === 'waiting' ? `oldest ${rough(lag.seconds)} s` : `${rough((ledger[name] - before.ledger[name]) / (at - before.at || 1))}/s`
    return html`<div>
      <dt>${name !== 'received' && html`<span aria-hidden="true">${sign} </span>`}${nameOf(name)}</dt>
      <dd><${view ? 'a' : 'span'} class="figure" href=${view && `#/${view}`} tabindex="0" title=${text}>${count(ledger[name])}<//> <small>${rate}</small></dd>
    </div>`
  }
  return html`<section class="card">
    <div class="row spread">
      <h2>Every message</h2>
      <${State} state=${isWhole ? 'good' : 'bad'}>${isWhole ? 'adds up' : 'does not add up'}<//>
    </div>
    <dl class="figures fields">${names.slice(0, 3).map(part('→'))}</dl>
    <dl class="figures fields">${names.slice(3).map(part('↳'))}</dl>
  </section>`
}

/** From the first figures on: a chart whose left is empty looks as if nothing had happened there. @param {readonly Sample[]} samples @returns {Range} */
function rangeOf(samples) {
  const [first, last] = /** @type {[Sample, Sample]} */ ([samples[0], samples.at(-1)])
  return { from: Math.max(last.at - samplesMax, Math.min(first.at, last.at - spanMin)), to: last.at }
}

/** @param {readonly Sample[]} samples */
const sinceOf = samples =>
  samples.length < samplesMax ? html`since ${timeOf(samples[0]?.at ?? 0)}, when this page began to look` : 'in the last five minutes'

/** @param {{ samples: readonly Sample[] }} props */
function Rates({ samples }) {
  const rateOf = (/** @type {'received' | 'stored'} */ of) =>
    samples.map(({ at, ledger }, nth) => {
      const before = samples[nth - 1]
      // The first ones may come at once, which would be a peak.
      return before && at - before.at > 0.5 ? Math.max(0, (ledger[of] - before.ledger[of]) / (at - before.at)) : undefined
    })
  const chart = (/** @type {string} */ title, /** @type {(number | undefined)[][]} */ values, /** @type {Line[]} */ series) =>
    html`<${Card} title=${title}>
      <${Chart} label=${`${title}, now ${values.map(one => rough(one.at(-1) ?? 0)).join(' and ')}`} isCount range=${rangeOf(samples)} data=${[samples.map(({ at }) => at), ...values]} series=${series} />
      <p class="quiet small">${sinceOf(samples)}</p>
    <//>`
  const came = { label: 'in', color: 'var(--waiting)', isDashed: true }
  const stored = { label: 'stored', color: 'var(--accent)' }
  return html`<div class="cards">
    ${chart('Messages a second', [rateOf('received'), rateOf('stored')], [came, stored])}
    ${chart('Messages that wait', [samples.map(({ lag }) => lag.messages)], [{ color: 'var(--accent)' }])}
  </div>`
}

/** What works now, and a time line of when it did not. @param {{ samples: readonly Sample[] }} props */
function Dependencies({ samples }) {
  const { dependencies, writer, mqtt_connections: connections } = /** @type {Sample} */ (samples.at(-1))
  const part = (/** @type {string} */ name, /** @type {string} */ now, /** @type {(sample: Sample, step: number) => boolean} */ isWell) => {
    const spans = samples.flatMap((sample, nth) => {
      const from = samples[nth - 1]?.at ?? sample.at
      return isWell(sample, sample.at - from) ? [] : [{ from, to: sample.at }]
    })
    const awaySeconds = Math.round(spans.reduce((sum, { from, to }) => sum + to - from, 0))
    return html`<li>
      <span>${name.replaceAll('_', ' ')}: <${State} state=${isWell(/** @type {Sample} */ (samples.at(-1)), 0) ? 'good' : 'bad'}>${now}<//></span>
      <${Bands} label=${`${name}: away for ${awaySeconds} seconds`} range=${rangeOf(samples)} spans=${spans} />
    </li>`
  }
  const isThere = (/** @type {string} */ name) => (/** @type {Sample} */ sample) =>
    sample.dependencies.some(one => one.name === name && !one.is_away)
  return html`<${Card} title="Dependencies">
    <ul class="plain stack">
      ${part('figures', 'come', (_, step) => step < gapMin)} ${part('writer', writer, ({ writer }) => writer === 'running')}
      ${dependencies.map(({ name, is_away: isAway }) => part(name, isAway ? 'away' : 'there', isThere(name)))}
      ${connections !== undefined && html`<li>MQTT: ${count(connections)} open ${connections === 1 ? 'connection' : 'connections'}</li>`}
    </ul>
    <p class="quiet small">Outages and restarts ${sinceOf(samples)}</p>
  <//>`
}

/** @typedef {{ load: { is_running: boolean, devices: number }, writer: string, store: { is_cut_until: number | null } }} Demo */
/** @typedef {{ holds: boolean, partitions: { recount: Record<string, number>, first: { kind: string, id: string, detail: string }[] }[] }} Verification */
/** What a fault did: the figures before it and, once all works again, after it. @typedef {{ before: Sample, after?: Sample }} Trial */

/** Faults under load, while the counts stop, catch up and add up; then `verify`, by itself. @param {import('../session.js').ViewProps} props */
export function BreakSomething({ overview: { sample, samples, error } }) {
  // With each sample, so that both show the same moment.
  const demo = useLoaded(signal => get('console/demo', { signal }), [sample?.at])
  /** @type {Demo | undefined} */
  const state = demo.value
  const [happened, setHappened] = useState('')
  const [trial, setTrial] = useState(/** @type {Trial | undefined} */ (undefined))
  const [result, setResult] = useState(/** @type {Verification | undefined} */ (undefined))
  const verify = useAction(async () => setResult(await get('admin/verify')))
  const isCut = (state?.store.is_cut_until ?? null) !== null
  const isWell = !isCut && sample?.writer === 'running' && sample.dependencies.every(one => !one.is_away) && sample.lag.seconds < faultMin
  const isOver = trial !== undefined && isWell && sample.at - trial.before.at > faultMin
  useEffect(() => {
    if (!isOver || trial.after) return
    setTrial({ ...trial, after: sample })
    void verify.run()
  }, [isOver])
  // Together, so that nothing moves.
  if (sample === undefined || (state === undefined && demo.error === undefined))
    return html`<${Problem} error=${error} /><p class="quiet">Waiting for the first figures…</p>`
  /** @type {(path: string, text: string, body?: object) => () => Promise<void>} */
  const act = (path, text, body) => async () => {
    await send('POST', `console/demo/${path}`, { body })
    setHappened(text)
    demo.reload()
    if (body !== undefined) return
    setTrial({ before: sample })
    setResult(undefined)
  }
  const isRunning = state?.load.is_running === true
  return html`<p>Start the load, break something, and watch: what comes in is kept, what is stored stops and catches up, and no message is lost or doubled.</p>
    <${Problem} error=${demo.error ?? error} />
    <div class="cards">
      <${Card} title="Load and faults">
        <div class="actions">
          <${Action} kind="main" action=${act('load', isRunning ? 'The load stopped.' : 'The load started.', { is_running: !isRunning })}>
            ${isRunning ? 'Stop the load' : `Start a load of ${state?.load.devices ?? 100} devices`}
          <//>
          <${Action} kind="danger" action=${act('writer-kill', 'The writer was killed, and starts again.')}>Kill the writer<//>
          <${Action} kind="danger" disabled=${isCut} action=${act('store-cut', 'The connection of the store is cut for ten seconds.')}>Cut the store for ten seconds<//>
          <${Action} kind="danger" action=${act('poison', 'Messages were published that cannot be decoded.')}>Publish poison<//>
        </div>
        <p role="status">${happened}</p>
      <//>
      <${Dependencies} samples=${samples} />
      <${Card} title="Verify">
        <p>Compares each message in the log with the store: after a fault by itself.</p>
        <p class="actions"><button type="button" disabled=${verify.isBusy} aria-busy=${verify.isBusy} onClick=${() => verify.run()}>Run verify</button></p>
        <${Problem} error=${verify.error} />
        <div role="status">${result && outcomeOf(result)}</div>
      <//>
      ${trial && html`<${BeforeAndAfter} ...${trial} />`}
    </div>
    <${Ledger} samples=${samples} />
    <${Rates} samples=${samples} />`
}

/** @param {Verification} result */
function outcomeOf({ holds, partitions }) {
  const sum = (/** @type {string} */ of) => count(partitions.reduce((sum, { recount }) => sum + (recount[of] ?? 0), 0))
  return html`<p><${State} state=${holds ? 'good' : 'bad'}>${holds ? 'Each message is stored exactly once, or a dead letter' : 'It does not hold'}<//></p>
    <p class="quiet">${sum('received')} received: ${sum('stored')} stored, ${sum('dead_lettered')} dead letters, ${sum('filtered')} filtered, ${sum('empty')} empty.</p>
    <ul>${partitions.flatMap(({ first }) => first).map(({ kind, id, detail }) => html`<li>${kind}: <code>${id}</code> ${detail}</li>`)}</ul>`
}

/** @param {Trial} props */
function BeforeAndAfter({ before, after }) {
  const rows = names.map(name => {
    const [was, is] = [before.ledger[name], after?.ledger[name]]
    const later = is === undefined ? ['…', ''] : [count(is), `${is > was ? '+' : ''}${count(is - was)}`]
    return { key: name, cells: [nameOf(name), count(was), ...later] }
  })
  return html`<${Card} title="Before and after">
    <p>${after ? `All works again after ${rough(after.at - before.at)} s.` : 'Waiting until all works again…'}</p>
    <${Table} caption="Before and after" columns=${['Messages', 'Before', 'After', 'Change']} rows=${rows} empty="" />
  <//>`
}
