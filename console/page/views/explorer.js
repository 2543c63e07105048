// A reader's whole query as a form, which is built from the description of the API, with the address and the command that ask for the same.

import { ApiError, get, getPage } from '../api.js'
import { Card, Copy, count, Field, Named, Problem, Table, timeOf } from '../elements.js'
import { enteredIn, html, onSubmit, useAction, useLayoutEffect, useLoaded, useMemo, useRef, useState } from '../hooks.js'
import { ChannelChoice, ChannelLine, messagesOf, saveCsv } from './live.js'

/** The empty text filters like any other. @typedef {Record<string, string>} Query */
/** Of OpenAPI. @typedef {{ name: string, in: string, description: string, schema: { enum?: string[], examples?: unknown[] } }} Parameter */

const payloadPrefix = 'payload.'
/** Parameters that most requests need: the others are folded. */
const usual = ['format', 'subtopic', 'publisher', 'name', 'from', 'to', 'limit']
const textMax = 500

/** @param {import('../session.js').ViewProps} props */
export function Explorer(props) {
  const [id] = props.route
  if (id === undefined) return html`<${ChannelChoice} ...${props} />`
  return html`<${ChannelLine} path="explorer" id=${id} /><${Described} key=${id} path=${messagesOf(id)} />`
}

/** What readers take, and what the channel has. @param {string} path @param {AbortSignal} signal */
async function describe(path, signal) {
  const [{ paths }, found] = await Promise.all([get('openapi.json', { signal }), get(path.replace(/messages$/, 'formats'), { signal })])
  /** @type {Parameter[]} */
  const parameters = paths['/channels/{channel}/messages'].get.parameters
  /** @type {{ format: string, subtopics: { subtopic: string }[] }[]} */
  const formats = found.formats
  return { parameters: parameters.filter(one => one.in === 'query' && one.name !== 'cursor'), formats }
}

/** The form at once in full: one that grows would move its buttons from under the pointer. @param {{ path: string }} props */
function Described({ path }) {
  const { value, error } = useLoaded(signal => describe(path, signal), [])
  return html`<${Problem} error=${error} />${value && html`<${Form} path=${path} ...${value} />`}`
}

/** @param {{ path: string } & Awaited<ReturnType<typeof describe>>} props */
function Form({ path, parameters, formats }) {
  const [query, setQuery] = useState(/** @type {Query} */ ({}))
  const [page, setPage] = useState(/** @type {import('../api.js').Page | undefined} */ (undefined))
  const form = useRef(/** @type {HTMLFormElement | null} */ (null))
  /** Since an error is at a field of them. */
  const isUnfolded = useRef(false)
  const { run, isBusy, error } = useAction(async (/** @type {() => Promise<void>} */ work) => work())
  const faults = faultsOf(error)
  useLayoutEffect(() => /** @type {any} */ (form.current)?.querySelector('[aria-invalid=true]')?.focus(), [error])

  const address = `${path}?${new URLSearchParams(query)}`.replace(/\?$/, '')
  const url = new URL(address, document.baseURI).href
  const curl = `curl -H "Authorization: Bearer $TOKEN" '${url}'`
  const chosen = formats.filter(({ format }) => format === (query['format'] ?? 'messages'))
  /** @type {Record<string, string[]>} */
  const found = {
    format: formats.map(({ format }) => format),
    subtopic: chosen.flatMap(({ subtopics }) => subtopics.map(({ subtopic }) => subtopic)),
  }
  const read = async (/** @type {Query} */ asked) => {
    setQuery(asked)
    setPage(undefined)
    setPage(await getPage(path, asked))
  }
  // The first page, also where the address is that of a later one.
  const submit = onSubmit(entered => run(() => read(queryOf(entered))))
  // Not printed again for each key that is pressed in the form.
  const records = useMemo(() => page && html`<${Records} page=${page} />`, [page])
  const problemOf = (/** @type {string} */ start) => [...faults].find(([name]) => name.startsWith(start))?.[1]
  const change = (/** @type {any} */ event) => setQuery(queryOf(enteredIn(event.currentTarget)))
  const others = parameters.map(({ name }) => name).filter(name => !usual.includes(name))
  isUnfolded.current ||= problemOf(payloadPrefix) !== undefined || others.some(name => faults.has(name))
  const valueOf = (/** @type {Parameter} */ one) =>
    html`<${Value} parameter=${one} problem=${faults.get(one.name)} found=${found[one.name]} />`
  const fields = (/** @type {readonly string[]} */ names) => names.flatMap(name => parameters.filter(one => one.name === name)).map(valueOf)
  return html`<form ref=${form} class="stack" onInput=${change} onReset=${() => setQuery({})} onSubmit=${submit}>
      <p class="quiet small">An empty field does not filter. For the empty text, such as no subtopic, enter "".</p>
      <div class="fields">${fields(usual)}</div>
      <details open=${isUnfolded.current}>
        <summary>Values, fields of documents, aggregation and order</summary>
        <div class="fields">
          ${fields(others)}
          <${Field} label="payload" hint=${String.raw`JSON: only documents whose field at a dotted path has this text. One a line. Within a key, a dot is \. and a backslash \\.`} problem=${problemOf(payloadPrefix)}>
            <textarea name="payload" placeholder="engine.speed=1200" aria-invalid=${problemOf(payloadPrefix) !== undefined}></textarea>
          <//>
        </div>
      </details>
      <p class="actions">
        <button class="main" disabled=${isBusy || query['limit'] === 'all'} aria-busy=${isBusy}>Read</button>
        <button type="button" disabled=${isBusy} aria-busy=${isBusy} onClick=${() => run(() => saveCsv(`${path}?${new URLSearchParams({ csv_safe: 'true', ...query })}`))}>Save as CSV</button>
        <button type="reset">Clear</button>
      </p>
    </form>
    <${Problem} error=${error} />
    ${records}
    ${page?.next && html`<button type="button" disabled=${isBusy} onClick=${() => run(() => read(page.next ?? {}))}>Next page</button>`}
    <${Card} title="The same request">
      <pre class="url" tabindex="0" aria-label="Address">${url}</pre>
      <pre class="curl" tabindex="0" aria-label="Command">${curl}</pre>
      <p class="row"><${Copy} text=${url} label="Copy the address" /> <${Copy} text=${curl} label="Copy the command" /></p>
    <//>`
}

/** @param {{ parameter: Parameter, problem: string | undefined, found?: readonly string[] }} props `found`: values that the channel has */
function Value({ parameter: { name, description, schema }, problem, found = [] }) {
  const offer = (/** @type {string} */ text) => html`<option value=${text}>${text}</option>`
  const isInvalid = problem !== undefined
  const [example] = schema.examples ?? []
  const input = schema.enum
    ? html`<select name=${name} aria-invalid=${isInvalid}>${['', ...schema.enum].map(offer)}</select>`
    : html`<input name=${name} placeholder=${example} list=${`found-${name}`} aria-invalid=${isInvalid} />
        <datalist id=${`found-${name}`}>${found.filter(text => text !== '').map(offer)}</datalist>`
  return html`<${Field} label=${name} hint=${description.replaceAll('`', '')} problem=${problem}>${input}<//>`
}

/** @param {Record<string, string>} entered @returns {Query} */
function queryOf({ payload = '', ...named }) {
  const lines = payload.split(/\r?\n/).filter(line => line.includes('='))
  const fields = lines.map(line => [payloadPrefix + line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)])
  return Object.fromEntries([...Object.entries(named), ...fields].map(([name, text]) => [name, text === '""' ? '' : text]))
}

/** @param {{ page: import('../api.js').Page }} props */
function Records({ page: { messages, total, total_is_lower_bound: isMore } }) {
  const columns = [...new Set(messages.flatMap(record => Object.keys(record)))].filter(key => key.toLowerCase() !== 'channel')
  const rows = messages.map((record, at) => ({ key: String(at), cells: columns.map(key => cellOf(key.toLowerCase(), record[key])) }))
  return html`<p role="status">${count(messages.length)} records${total !== undefined && ` of ${isMore ? 'at least ' : ''}${count(total)}`}</p>
    <${Table} caption="Records" columns=${columns} empty="No record matches." rows=${rows} />`
}

/** @param {string} key in lower case @param {any} value */
function cellOf(key, value) {
  if (key === 'publisher') return html`<${Named} kind="things" id=${value} />`
  if (key === 'time') return timeOf(value)
  const text = typeof value === 'object' ? JSON.stringify(value) : String(value ?? '')
  return html`<code>${text.length <= textMax ? text : `${text.slice(0, textMax)}…`}</code>`
}

/** What an error says of each parameter: its JSON pointers are `/query/limit`. @param {unknown} error @returns {Map<string, string>} */
function faultsOf(error) {
  /** @type {{ pointer: string, detail: string }[]} */
  const faults = error instanceof ApiError ? (error.answer?.errors ?? []) : []
  return new Map(faults.map(({ pointer, detail }) => [pointer.replace('/query/', ''), detail]))
}
