// The overview for administrators: what comes in and is stored, as it happens; on an empty platform the first steps.

import { html } from 'htm/preact'
import { useState } from 'preact/hooks'
import { Chart } from '../chart.js'
import { count, Named, Problem, rough, State, Table, timeOf } from '../elements.js'
import { useFollowed } from '../hooks.js'
import { FirstSteps } from './first-steps.js'

/** @import { Line, Range } from '../chart.js' */
/** @import { Sample } from '../session.js' */

const samplesMax = 300
/** The first seconds would otherwise be as wide as the chart. */
const spanMin = 15
/** What the figures mean. @type {Record<string, string>} */
const told = {
  in: 'Accepted a second.',
  stored: 'Stored a second.',
  messages: 'In the log, not stored yet.',
  seconds: 'Age of the oldest.',
}

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
    <${Ledger} sample=${sample} />
    <${Rates} samples=${samples} />
    <div class="cards">
      <${Dependencies} sample=${sample} />
      <section class="card">
        <h2>Dead letters by rule</h2>
        <${Table} caption="Dead letters by rule" columns=${['Rule', 'Open']} empty="None is open: every message was stored."
          rows=${letters.map(([rule, open]) => ({ key: rule, cells: [html`<a href=${`#/dead-letters/rule/${rule}`}>${rule}</a>`, count(open)] }))} />
      </section>
    </div>
    <section class="card">
      <h2>Newest messages</h2>
      <${Table} caption="Newest messages" columns=${['Received', 'Channel', 'Thing', 'Subtopic', 'Payload']} empty="None is in the log."
        rows=${sample.newest.map(({ id, time, channel, publisher, subtopic, payload }) => ({
          key: id,
          cells: [
            timeOf(time),
            html`<${Named} kind="channels" id=${channel} />`,
            html`<${Named} kind="things" id=${publisher} />`,
            subtopic,
            html`<code>${payload}</code>`,
          ],
        }))} />
    </section>`
}

/** What the counts mean, and the view of each. @type {Record<string, readonly [string, string?]>} */
const meanings = {
  received: ['Messages that were accepted, and are in the log.', 'explorer'],
  stored: ['Messages whose records are in the store, each once.', 'explorer'],
  dead_lettered: ['Messages that could not be decoded or stored: they are kept, with the rule that they break.', 'dead-letters'],
  filtered: ['Messages that no subject of the writer matches.'],
  empty: ['Messages without a record.'],
  lost: ['Messages that left the log before the writer had read them.'],
  waiting: ['Messages in the log that the writer has not stored yet.'],
}

/** The count of each end that a message can have, as a sum. @param {{ sample: Sample }} props */
export function Ledger({ sample: { ledger } }) {
  const { received, ...parts } = ledger
  const sum = Object.values(parts).reduce((sum, value) => sum + value, 0)
  const part = (/** @type {string} */ name, /** @type {string} */ sign, /** @type {number} */ value) => {
    const [text, view] = meanings[name] ?? []
    const number = html`<${view ? 'a' : 'span'} class="figure" href=${view && `#/${view}`} tabindex="0" title=${text}><small>${sign}</small> ${count(value)}<//>`
    return html`<div><dt>${name.replace('_lettered', ' letters')}</dt><dd>${number}</dd></div>`
  }
  return html`<section class="card">
    <div class="row spread">
      <h2>Every message</h2>
      <${State} state=${sum === received ? 'good' : 'bad'}>${sum === received ? 'adds up' : 'does not add up'}<//>
    </div>
    <dl class="ledger">
      ${part('received', '', received)} ${Object.entries(parts).map(([name, value], at) => part(name, at === 0 ? '=' : '+', value))}
    </dl>
  </section>`
}

/** @param {{ samples: readonly Sample[] }} props */
export function Rates({ samples }) {
  const [first, last] = /** @type {[Sample, Sample]} */ ([samples[0], samples.at(-1)])
  const ratesOf = (/** @type {'received' | 'stored'} */ of) =>
    samples.map(({ at, ledger }, nth) => {
      const before = samples[nth - 1]
      // The first ones may come at once, which would be a peak.
      return before && at - before.at > 0.5 ? Math.max(0, (ledger[of] - before.ledger[of]) / (at - before.at)) : undefined
    })
  const [received, stored] = [ratesOf('received'), ratesOf('stored')]
  const now = { in: rough(received.at(-1) ?? 0), stored: rough(stored.at(-1) ?? 0) }
  // From the first sample on: a chart whose left is empty looks as if nothing had happened there.
  const range = { from: Math.max(last.at - samplesMax, Math.min(first.at, last.at - spanMin)), to: last.at }
  const since = samples.length < samplesMax ? html`since ${timeOf(first.at)}, when this page began to look` : 'in the last five minutes'
  const lag = { messages: count(last.lag.messages), seconds: rough(last.lag.seconds) }
  const shared = { range, times: samples.map(({ at }) => at), since }
  return html`<div class="cards">
    <${Rate} title="Messages a second" now=${now} label=${`Messages a second, now ${now.in} in and ${now.stored} stored`}
      data=${[received, stored]} series=${[{ label: 'in', color: 'var(--waiting)', isDashed: true }, { label: 'stored', color: 'var(--accent)' }]} ...${shared} />
    <${Rate} title="Lag" now=${lag} label=${`Messages that wait, now ${lag.messages}`}
      data=${[samples.map(({ lag }) => lag.messages)]} series=${[{ color: 'var(--accent)' }]} ...${shared} />
  </div>`
}

/** @param {{ title: string, now: Record<string, string>, label: string, range: Range, times: number[], data: any[], series: Line[], since: unknown }} props */
function Rate({ title, now, label, range, times, data, series, since }) {
  return html`<section class="card">
    <h2>${title}</h2>
    <p class="row">${Object.entries(now).map(([name, value]) => html`<span class="figure" tabindex="0" title=${told[name]}>${value} <small>${name}</small></span>`)}</p>
    <${Chart} label=${label} isCount range=${range} data=${[times, ...data]} series=${series} />
    <p class="quiet small">${since}</p>
  </section>`
}

/** @param {{ sample: Sample }} props */
export function Dependencies({ sample: { dependencies, writer, mqtt_connections: connections } }) {
  return html`<section class="card">
    <h2>Dependencies</h2>
    <ul class="plain">
      <li>writer: <${State} state=${writer === 'running' ? 'good' : 'bad'}>${writer}<//></li>
      ${dependencies.map(({ name, is_away: isAway }) => html`<li>${name.replaceAll('_', ' ')}: <${State} state=${isAway ? 'bad' : 'good'}>${isAway ? 'away' : 'there'}<//></li>`)}
      ${connections !== undefined && html`<li>MQTT: ${count(connections)} open ${connections === 1 ? 'connection' : 'connections'}</li>`}
    </ul>
  </section>`
}
