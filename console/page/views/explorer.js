// A reader's whole query as a form, with the address and the command that ask for the same.

import { html } from 'htm/preact'
import { useLayoutEffect, useRef, useState } from 'preact/hooks'
import { ApiError, get, send } from '../api.js'
import { ChannelChoice, ChannelLine, messagesOf, Publisher, saveCsv } from '../channel-choice.js'
import { Action, Copy, count, Field, Problem, Table, timeOf, useLoaded } from '../elements.js'

/** Parameters that have a value; the empty text filters like any other. @typedef {Readonly<Record<string, string>>} Query */
/** `mayBeEmpty`: means without one. @typedef {{ name: string, label: string, hint?: string, options?: readonly string[], mayBeEmpty?: string }} Parameter */

const boolean = /** @type {const} */ (['true', 'false'])
const time = 'Seconds since 1970, or 2026-11-01T00:00:00Z.'
/** @type {readonly { title: string, parameters: readonly Parameter[] }[]} */
const groups = [
  {
    title: 'Which messages',
    parameters: [
      { name: 'format', label: 'Format', hint: 'Of JSON; empty: SenML.' },
      { name: 'subtopic', label: 'Subtopic', mayBeEmpty: 'without a subtopic' },
      { name: 'publisher', label: 'Publisher', hint: 'The id of a thing.' },
      { name: 'protocol', label: 'Protocol', hint: 'http, mqtt, kafka' },
      { name: 'from', label: 'From', hint: time },
      { name: 'to', label: 'To', hint: 'Before this time.' },
    ],
  },
  {
    title: 'Which SenML records',
    parameters: [
      { name: 'name', label: 'Name' },
      { name: 'unit', label: 'Unit', mayBeEmpty: 'without a unit' },
      { name: 'v', label: 'Number' },
      { name: 'comparator', label: 'Comparator', options: ['eq', 'lt', 'le', 'gt', 'ge'] },
      { name: 'vb', label: 'Boolean', options: boolean },
      { name: 'vs', label: 'Text', mayBeEmpty: 'the empty text' },
      { name: 'vd', label: 'Bytes', hint: 'In base64url.', mayBeEmpty: 'no bytes' },
    ],
  },
  {
    title: 'The answer',
    parameters: [
      { name: 'limit', label: 'Limit', hint: 'Records of a page; all: as CSV or by the command.' },
      { name: 'offset', label: 'Offset' },
      { name: 'dir', label: 'Direction', options: ['desc', 'asc'] },
      { name: 'latest', label: 'Only the newest of each series', options: boolean },
      { name: 'aggregation', label: 'Aggregation', options: ['min', 'max', 'avg', 'sum', 'count', 'first', 'last'] },
      { name: 'interval', label: 'Interval', hint: '10s, 5m, 1h, 1d' },
      { name: 'count', label: 'Count', options: ['exact', 'none'] },
      { name: 'keys', label: 'Keys', options: ['lower'] },
      { name: 'csv_safe', label: 'CSV for spreadsheets', options: boolean },
    ],
  },
]
const payloadPrefix = 'payload.'
const textMax = 500

/** @param {import('../session.js').ViewProps} props */
export function Explorer({ route: [id], home }) {
  if (id === undefined) return html`<${ChannelChoice} path="explorer" home=${home} />`
  return html`<${ChannelLine} path="explorer" id=${id} home=${home} /><${Form} key=${id} id=${id} home=${home} />`
}

/** @typedef {{ messages: Record<string, any>[], total?: number, total_is_lower_bound?: boolean, next: Query | undefined }} Page */

/** @param {{ id: string, home: import('../session.js').Home }} props */
function Form({ id, home }) {
  const path = messagesOf(id)
  const [query, setQuery] = useState(/** @type {Query} */ ({}))
  /** Fields of payloads: path and text, in the order of the form. */
  const [payload, setPayload] = useState(/** @type {readonly (readonly [string, string])[]} */ ([]))
  const [page, setPage] = useState(/** @type {Page | undefined} */ (undefined))
  const [error, setError] = useState(/** @type {unknown} */ (undefined))
  const [isBusy, setBusy] = useState(false)
  const form = useRef(/** @type {HTMLFormElement | null} */ (null))
  const found = useLoaded(signal => get(path.replace(/messages$/, 'formats'), { signal }), [])
  const faults = faultsOf(error)
  useLayoutEffect(() => /** @type {any} */ (form.current)?.querySelector('[aria-invalid=true]')?.focus(), [error])

  const asked = { ...query, ...Object.fromEntries(payload.filter(([key]) => key !== '').map(([key, text]) => [payloadPrefix + key, text])) }
  const addressOf = (/** @type {Query} */ asked) => [path, new URLSearchParams(asked).toString()].filter(part => part !== '').join('?')
  const url = new URL(addressOf(asked), document.baseURI).href
  const curl = `curl -H "Authorization: Bearer $TOKEN" '${url}'`
  const set = (/** @type {string} */ name, /** @type {string | undefined} */ text) => {
    // A cursor is for the query that it came from.
    const { [name]: _, cursor: __, ...rest } = query
    setQuery(text === undefined ? rest : { ...rest, [name]: text })
  }
  const ask = async (/** @type {Query} */ asked) => {
    setBusy(true)
    setError(undefined)
    try {
      const response = await send('GET', addressOf(asked), { headers: { accept: 'application/json' } })
      const next = /<\?([^>]*)>; rel="next"/.exec(response.headers.get('link') ?? '')?.[1]
      setPage({ ...parsed(await response.text()), next: next === undefined ? undefined : Object.fromEntries(new URLSearchParams(next)) })
    } catch (error) {
      setPage(undefined)
      setError(error)
    } finally {
      setBusy(false)
    }
  }
  const further = (/** @type {Query} */ next) => {
    setQuery(Object.fromEntries(Object.entries(next).filter(([name]) => !name.startsWith(payloadPrefix))))
    void ask(next)
  }
  const save = async () => {
    setError(undefined)
    await saveCsv(addressOf(asked)).catch(error => {
      if (faultsOf(error).size === 0) throw error
      setError(error)
    })
  }
  /** @type {{ format: string, subtopics: { subtopic: string }[] }[]} */
  const formats = found.value?.formats ?? []
  const chosen = formats.filter(({ format }) => format === (query['format'] ?? 'messages'))
  const lists = {
    format: formats.map(({ format }) => format),
    subtopic: chosen.flatMap(({ subtopics }) => subtopics.map(({ subtopic }) => subtopic)),
  }
  const names = new Set(groups.flatMap(({ parameters }) => parameters.map(({ name }) => name)).concat(Object.keys(asked)))
  const isPlaced = faults.size > 0 && [...faults.keys()].every(name => names.has(name) && name !== 'cursor')
  return html`<form ref=${form} onSubmit=${(/** @type {SubmitEvent} */ event) => (event.preventDefault(), void ask(asked))}>
      ${groups.map(
        ({ title, parameters }) => html`<fieldset><legend>${title}</legend><div class="cards top small">
          ${parameters.map(
            parameter => html`<${Value} key=${parameter.name} parameter=${parameter} value=${query[parameter.name]} problem=${faults.get(parameter.name)}
              list=${parameter.name === 'format' || parameter.name === 'subtopic' ? lists[parameter.name] : undefined}
              onChange=${(/** @type {string | undefined} */ text) => set(parameter.name, text)} />`,
          )}
        </div></fieldset>`,
      )}
      <fieldset><legend>Which JSON documents</legend>
        ${payload.map(([key, text], at) => {
          const change = (/** @type {readonly [string, string]} */ to) => (setPayload(payload.with(at, to)), set('cursor', undefined))
          return html`<div class="row" key=${at}>
            <${Field} label="Path in the payload" problem=${faults.get(payloadPrefix + key)}
              ><input placeholder="engine.speed" value=${key} aria-invalid=${faults.has(payloadPrefix + key)}
                onInput=${(/** @type {any} */ { target }) => change([target.value, text])} /><//>
            <${Field} label="Its value"><input value=${text} onInput=${(/** @type {any} */ { target }) => change([key, target.value])} /><//>
            <button type="button" onClick=${() => setPayload(payload.toSpliced(at, 1))}>Remove</button>
          </div>`
        })}
        <button type="button" onClick=${() => setPayload([...payload, ['', '']])}>Add a field of the payload</button>
      </fieldset>
      <${Problem} error=${found.error} />
      <p class="row">
        <button class="main" disabled=${isBusy || query['limit'] === 'all'} aria-busy=${isBusy}>Read</button>
        <${Action} action=${save}>Save as CSV<//>
        <button type="button" onClick=${() => (setQuery({}), setPayload([]), setError(undefined))}>Clear</button>
        ${query['cursor'] !== undefined && html`<button type="button" onClick=${() => set('cursor', undefined)}>Back to the first page</button>`}
      </p>
    </form>
    <section class="card">
      <h2>The same request</h2>
      <pre class="url" tabindex="0" aria-label="Address">${url}</pre>
      <pre class="curl" tabindex="0" aria-label="Command">${curl}</pre>
      <p class="row"><${Copy} text=${url} label="Copy the address" /> <${Copy} text=${curl} label="Copy the command" /></p>
    </section>
    ${isPlaced ? html`<p class="notice problem" role="alert">The request was refused: see the fields.</p>` : html`<${Problem} error=${error} />`}
    ${page && html`<${Records} page=${page} home=${home} onNext=${further} isBusy=${isBusy} />`}`
}

/**
 * @param {{
 *   parameter: Parameter, value: string | undefined, problem: string | undefined, list: readonly string[] | undefined,
 *   onChange: (text: string | undefined) => void,
 * }} props
 */
function Value({ parameter: { name, label, hint = '', options, mayBeEmpty }, value, problem, list, onChange }) {
  const isEmpty = value === ''
  const input = (/** @type {any} */ { target }) => onChange(target.value === '' ? undefined : target.value)
  return html`<div>
    <${Field} label=${label} hint=${hint} problem=${problem}>
      ${
        options
          ? html`<select value=${value ?? ''} aria-invalid=${problem !== undefined} onChange=${input}>
              <option value=""></option>
              ${options.map(option => html`<option value=${option}>${option}</option>`)}
            </select>`
          : html`<input value=${value ?? ''} disabled=${isEmpty} list=${list && `found-${name}`} aria-invalid=${problem !== undefined} onInput=${input} />`
      }
    <//>
    ${list && html`<datalist id=${`found-${name}`}>${list.filter(text => text !== '').map(text => html`<option value=${text}></option>`)}</datalist>`}
    ${
      mayBeEmpty &&
      html`<label class="tick"><input type="checkbox" checked=${isEmpty} onChange=${() => onChange(isEmpty ? undefined : '')} /> ${mayBeEmpty}</label>`
    }
  </div>`
}

/** @param {{ page: Page, home: import('../session.js').Home, isBusy: boolean, onNext: (next: Query) => void }} props */
function Records({ page: { messages, total, total_is_lower_bound, next }, home, isBusy, onNext }) {
  const columns = [...new Set(messages.flatMap(record => Object.keys(record)))].filter(key => key.toLowerCase() !== 'channel')
  return html`<p role="status">
      ${count(messages.length)} records${total !== undefined && ` of ${total_is_lower_bound ? 'at least ' : ''}${count(total)}`}
    </p>
    <${Table}
      caption="Records"
      columns=${columns}
      empty="No record matches."
      rows=${messages.map((record, at) => ({ key: String(at), cells: columns.map(key => cellOf(key.toLowerCase(), record[key], home)) }))}
    />
    ${next && html`<p><button type="button" disabled=${isBusy} onClick=${() => onNext(next)}>Next page</button></p>`}`
}

/** @param {string} key in lower case @param {any} value @param {import('../session.js').Home} home */
function cellOf(key, value, home) {
  if (value === undefined) return ''
  if (key === 'publisher') return html`<${Publisher} id=${value} home=${home} />`
  if (key === 'time' || key === 'update_time' || key === 'updatetime') return timeOf(value)
  if (key === 'created') return timeOf(Number(JSON.stringify(value)) / 1e9)
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  return text.length <= textMax
    ? html`<code>${text}</code>`
    : html`<details><summary><code>${text.slice(0, textMax)}…</code></summary><code>${text}</code></details>`
}

/** The page with every digit of integers that a double cannot hold, as far as the browser can. @param {string} text */
function parsed(text) {
  const { rawJSON } = /** @type {any} */ (JSON)
  const exact = (/** @type {string} */ _, /** @type {unknown} */ value, /** @type {any} */ context) =>
    typeof value === 'number' && Number.isInteger(value) && !Number.isSafeInteger(value) && rawJSON && context
      ? rawJSON(context.source)
      : value
  return JSON.parse(text, /** @type {any} */ (exact))
}

/** What an error says of each parameter: its JSON pointers are `/query/limit`. @param {unknown} error @returns {Map<string, string>} */
function faultsOf(error) {
  /** @type {{ pointer: string, detail: string }[]} */
  const faults = error instanceof ApiError ? (error.answer?.errors ?? []) : []
  const named = faults.filter(({ pointer }) => pointer.startsWith('/query/'))
  return new Map(named.map(({ pointer, detail }) => [pointer.slice('/query/'.length).replaceAll('~1', '/').replaceAll('~0', '~'), detail]))
}
