// The overview: what comes in and is stored as it happens, for administrators of a whole platform; health and counts for everyone else.

import { html } from 'htm/preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { ApiError, follow, get } from '../api.js'
import { Chart } from '../chart.js'
import { Copy, count, Problem, rough, State, Table, timeOf, useLoaded } from '../elements.js'
import { Named } from '../names.js'

/** @typedef {{ Name?: string, Unit?: string, Value?: number, StringValue?: string, BoolValue?: boolean, DataValue?: string, Sum?: number, Payload?: unknown }} DeviceRecord */
/**
 * @typedef {{
 *   at: number, ledger: Record<'received' | 'stored' | 'dead_lettered' | 'filtered' | 'empty' | 'lost' | 'waiting', number>,
 *   dead_letters: Record<string, number>, lag: { messages: number, seconds: number }, dependencies: { name: string, is_away: boolean }[], writer: string,
 *   newest: { id: string, time: number, channel: string, publisher: string, subtopic: string, protocol: string, records: DeviceRecord[], more: number }[],
 * }} Sample
 */
/** @typedef {{ at: number, received: number, stored: number, lag: number }} Point `received` and `stored`: messages a second */

const pointsMax = 300
const newestMax = 20

/** @param {import('../session.js').ViewProps} props */
export function Overview({ home, session }) {
  return session.isAdministrator && home.links['overview'] !== undefined
    ? html`<${Everything} home=${home} />`
    : html`<${Own} home=${home} session=${session} />`
}

/**
 * What the platform reports each second.
 *
 * @param {import('../session.js').Home} home
 * @param {boolean} [isPaused]
 * @returns {{ sample: Sample | undefined, points: readonly Point[], newest: Sample['newest'], isOpen: boolean, error: unknown }}
 */
export function useSamples(home, isPaused = false) {
  const last = useRef(/** @type {Sample | undefined} */ (undefined))
  const [state, setState] = useState({ points: /** @type {readonly Point[]} */ ([]), newest: /** @type {Sample['newest']} */ ([]) })
  const [isOpen, setOpen] = useState(false)
  const [error, setError] = useState(/** @type {unknown} */ (undefined))
  useEffect(() => {
    if (isPaused) return undefined
    const stop = new AbortController()
    follow((home.links['overview'] ?? '').replace(/^\//, ''), {
      signal: stop.signal,
      onState: (state, error) => (setOpen(state === 'open'), setError(error)),
      onEvent({ event, data }) {
        if (event !== 'overview') return
        /** @type {Sample} */
        const sample = JSON.parse(data)
        const { current: before } = last
        last.current = sample
        setState(({ points, newest }) => ({
          points: [...points, ...pointsOf(before, sample)].slice(-pointsMax),
          newest: [...sample.newest, ...newest].slice(0, newestMax),
        }))
      },
    }).catch(setError)
    return () => stop.abort()
  }, [isPaused])
  return { ...state, sample: last.current, isOpen, error }
}

/**
 * @param {Sample | undefined} before
 * @param {Sample} sample
 * @returns {Point[]}
 */
function pointsOf(before, { at, ledger, lag }) {
  const seconds = before === undefined ? 0 : at - before.at
  if (before === undefined || seconds <= 0) return []
  const rate = (/** @type {'received' | 'stored'} */ of) => Math.max(0, (ledger[of] - before.ledger[of]) / seconds)
  return [{ at, received: rate('received'), stored: rate('stored'), lag: lag.messages }]
}

/** @param {{ home: import('../session.js').Home }} props */
function Everything({ home }) {
  const [isPaused, setPaused] = useState(false)
  const { sample, points, newest, isOpen, error } = useSamples(home, isPaused)
  if (sample === undefined) return html`<${Problem} error=${error} /><p class="quiet">Waiting for the first figures…</p>`
  const letters = Object.entries(sample.dead_letters).sort(([, one], [, other]) => other - one)
  return html`<${Problem} error=${error} />
    <p class="row">
      <button type="button" onClick=${() => setPaused(!isPaused)}>${isPaused ? 'Continue' : 'Pause'}</button>
      ${isPaused ? html`<${State} state="waiting">paused at ${timeOf(sample.at)}<//>` : html`<${State} state=${isOpen ? 'good' : 'waiting'}>${isOpen ? 'up to date' : 'connecting…'}<//>`}
    </p>
    <${Ledger} sample=${sample} />
    <${Rates} sample=${sample} points=${points} />
    <div class="cards">
      <${Dependencies} sample=${sample} />
      <section class="card">
        <h2>Dead letters by rule</h2>
        <${Table} caption="Dead letters by rule" columns=${['Rule', 'Open']} empty="None is open."
          rows=${letters.map(([rule, open]) => ({ key: rule, cells: [html`<a href=${`#/dead-letters/rule/${encodeURIComponent(rule)}`}>${rule}</a>`, count(open)] }))} />
      </section>
    </div>
    <section class="card">
        <h2>Newest messages</h2>
        <${Table} caption="Newest messages" columns=${['Received', 'Channel', 'Thing', 'Subtopic', 'Values']} empty="None since this page was opened."
          rows=${newest.map(({ id, time, channel, publisher, subtopic, records, more }) => ({
            key: id,
            cells: [
              timeOf(time),
              html`<${Named} kind="channels" id=${channel} />`,
              html`<${Named} kind="things" id=${publisher} />`,
              subtopic,
              html`${records.map(record => html`<div>${textOf(record)}</div>`)} ${more > 0 && html`<div class="quiet">and ${count(more)} more</div>`}`,
            ],
          }))} />
    </section>`
}

/** @param {DeviceRecord} record */
function textOf({ Name, Unit, Value, StringValue, BoolValue, DataValue, Sum, Payload }) {
  if (Payload !== undefined) return JSON.stringify(Payload)
  const value = Value ?? StringValue ?? BoolValue ?? DataValue ?? (Sum === undefined ? '' : `sum ${Sum}`)
  return `${Name ?? ''} = ${value} ${Unit ?? ''}`
}

/** The count of each end that a message can have, as a sum. @param {{ sample: Sample }} props */
export function Ledger({ sample: { ledger } }) {
  const parts = /** @type {const} */ ([
    ['stored', ledger.stored],
    ['dead letters', ledger.dead_lettered],
    ['filtered', ledger.filtered],
    ['empty', ledger.empty],
    ['lost', ledger.lost],
    ['waiting', ledger.waiting],
  ])
  const sum = parts.reduce((sum, [, value]) => sum + value, 0)
  return html`<section class="card">
    <h2>Every message</h2>
    <dl class="ledger">
      <div><dt>received</dt><dd class="figure">${count(ledger.received)}</dd></div>
      ${parts.map(([name, value], at) => html`<div><dt>${name}</dt><dd class="figure"><small>${at === 0 ? '=' : '+'}</small> ${count(value)}</dd></div>`)}
    </dl>
    <${State} state=${sum === ledger.received ? 'good' : 'bad'}>
      ${sum === ledger.received ? 'adds up' : `does not add up: ${count(Math.abs(ledger.received - sum))} ${sum < ledger.received ? 'missing' : 'too many'}`}
    <//>
  </section>`
}

/** @param {{ sample: Sample, points: readonly Point[] }} props */
export function Rates({ sample, points }) {
  const last = points.at(-1)
  const rates = /** @type {const} */ ([
    ['in', last?.received ?? 0],
    ['stored', last?.stored ?? 0],
  ])
  const times = points.map(({ at }) => at)
  const { messages, seconds } = sample.lag
  return html`<div class="cards">
    <section class="card">
      <h2>Messages a second</h2>
      <p class="row">${rates.map(([name, rate]) => html`<span class="figure">${rough(rate)} <small>${name}</small></span>`)}</p>
      <${Chart} label=${`Messages a second in five minutes, now ${rough(rates[0][1])} in and ${rough(rates[1][1])} stored`}
        data=${[times, points.map(({ received }) => received), points.map(({ stored }) => stored)]}
        series=${[{ name: 'in', color: '--waiting', dash: [6, 4] }, { name: 'stored', color: '--accent' }]} />
    </section>
    <section class="card">
      <h2>Lag</h2>
      <p class="row">
        <span class="figure">${count(messages)} <small>messages</small></span><span class="figure">${rough(seconds)} <small>seconds</small></span>
      </p>
      <${Chart} label=${`Messages that wait, in five minutes, now ${count(messages)}`} data=${[times, points.map(({ lag }) => lag)]}
        series=${[{ name: 'messages that wait', color: '--accent' }]} />
    </section>
  </div>`
}

/** @param {{ sample: Sample }} props */
export function Dependencies({ sample: { dependencies, writer } }) {
  return html`<section class="card">
    <h2>Dependencies</h2>
    <ul class="plain">
      <li>writer: <${State} state=${writer === 'running' ? 'good' : 'bad'}>${writer}<//></li>
      ${dependencies.map(({ name, is_away: isAway }) => html`<li>${name.replaceAll('_', ' ')}: <${State} state=${isAway ? 'bad' : 'good'}>${isAway ? 'away' : 'there'}<//></li>`)}
    </ul>
  </section>`
}

/** @param {{ home: import('../session.js').Home, session: import('../session.js').Session }} props */
function Own({ home, session }) {
  const health = useLoaded(signal => get('health', { signal, withoutToken: true, headers: { accept: '*/*' } }).catch(answerOf), [])
  const hasEntities = home.services.includes('control plane')
  const totals = useLoaded(async signal => {
    if (!hasEntities) return undefined
    const total = async (/** @type {string} */ path) => (await get(path, { query: { limit: 1 }, signal })).total
    return { things: await total('things'), channels: await total('channels') }
  }, [])
  useEffect(() => {
    const timer = setInterval(health.reload, 5000)
    return () => clearInterval(timer)
  }, [])
  const checks = Object.entries(/** @type {Record<string, { status: string }[]>} */ (health.value?.checks ?? {}))
  return html`<div class="cards">
    <section class="card">
      <h2>Health</h2>
      <${Problem} error=${health.error} />
      <ul class="plain">
        ${checks.map(([name, [check]]) => html`<li>${name}: <${State} state=${check?.status === 'pass' ? 'good' : 'bad'}>${check?.status === 'pass' ? 'works' : 'fails'}<//></li>`)}
      </ul>
      <p class="quiet">Here: ${home.services.join(', ')}.</p>
    </section>
    ${
      hasEntities &&
      html`<section class="card">
        <h2>Yours</h2>
        ${session.user && html`<p class="row">Your id: <code>${session.user.id}</code> <${Copy} text=${session.user.id} /></p>`}
        <${Problem} error=${totals.error} />
        ${totals.value && html`<p class="row">${Object.entries(totals.value).map(([name, total]) => html`<a class="figure" href=${`#/${name}`}>${count(total)} <small>${name}</small></a>`)}</p>`}
      </section>`
    }
  </div>`
}

/** A failed check is answered 503, with all results. @param {unknown} error */
function answerOf(error) {
  if (error instanceof ApiError && error.answer?.checks !== undefined) return error.answer
  throw error
}
