// The messages of a load: each contains its number, from which everything else follows, including its expected outcome.

import type { OutgoingMessage } from '../../pipeline/log.ts'
import type { StoreName } from '../../roles/stores/store.ts'

/** The expected outcome of a message: rows in a table, a dead letter with a rule, or nothing. */
export type Expected = { readonly table: string; readonly rows: readonly string[] } | { readonly rule: string } | { readonly empty: true }

export interface TestMessage {
  readonly outgoing: OutgoingMessage
  readonly expected: Expected
}

/** A stored row in the form of `rowText`. */
export interface SenmlRow {
  readonly channel: string
  readonly publisher: string
  readonly subtopic: string
  readonly name: string
  readonly seconds: number
  readonly value: number
}

export interface DocumentRow {
  readonly channel: string
  readonly publisher: string
  readonly subtopic: string
  readonly payload: unknown
}

export function senmlText({ channel, publisher, subtopic, name, seconds, value }: SenmlRow): string {
  return [channel, publisher, subtopic, name, seconds, value].join(' ')
}

export function documentText({ channel, publisher, subtopic, payload }: DocumentRow): string {
  const { id, part, at } = payload as Record<string, unknown>
  return [channel, publisher, subtopic, id, part, JSON.stringify(at)].join(' ')
}

const channels = 240
export const formats = ['engine', 'climate', 'Door State'] as const
const packRecords = 12
const encoder = new TextEncoder()

/** The number of the message to which bytes or names belong; undefined if they contain none. */
export function numberIn(text: string): number | undefined {
  const found = /m(\d+)m/.exec(text)
  return found === null ? undefined : Number(found[1])
}

type Kind = Partial<OutgoingMessage> & { expected: Expected }

/** Of a thousand messages: how many of each kind, in this order. */
const shares: readonly (readonly [number, (number: number, epochSeconds: number, store: StoreName) => Kind])[] = [
  [620, record],
  [180, pack],
  [185, documents],
  [3, undecodable],
  [3, withNul],
  [2, withFarTime],
  [3, refusedByStore],
  [2, withoutKey],
  [2, emptyDocuments],
]

const goodShare = 985

/**
 * @param epochSeconds the times of records are near it; the same for all messages of a load
 * @param poison the store that refuses some of them; undefined for a load without dead letters
 */
export function messageOf(number: number, epochSeconds: number, poison: StoreName | undefined): TestMessage {
  // Multiplied by a prime, so that the kinds are mixed.
  let share = (number * 617) % (poison === undefined ? goodShare : 1000)
  const kind = shares.find(([size]) => (share -= size) < 0)![1]
  const { expected, ...fields } = kind(number, epochSeconds, poison ?? 'relational')
  return { expected, outgoing: { ...envelopeOf(number, epochSeconds), payload: new Uint8Array(0), ...fields } }
}

function envelopeOf(number: number, epochSeconds: number) {
  const channel = number % channels
  return {
    channel: `channel-${channel}`,
    subtopic: 'plant.line',
    publisher: `thing-${channel}-${number % 3}`,
    protocol: 'http',
    contentType: 'application/senml+json',
    // Of a clock that stands still, in whole seconds, as those of most foreign topics: only its position tells a document from another.
    createdUs: epochSeconds * 1e6,
    createdRestNs: 0,
  }
}

function records(number: number, epochSeconds: number, count: number) {
  const { channel, publisher, subtopic } = envelopeOf(number, epochSeconds)
  const seconds = epochSeconds - (number % 7200)
  const made = Array.from({ length: count }, (_, part) => ({ n: `m${number}m:${part}`, t: seconds + part, v: number + part / 4 }))
  const rows = made.map(({ n, t, v }) => senmlText({ channel, publisher, subtopic, name: n, seconds: t, value: v }))
  return { payload: encoder.encode(JSON.stringify(made)), expected: { table: 'messages', rows } }
}

function record(number: number, epochSeconds: number) {
  return records(number, epochSeconds, 1)
}

function pack(number: number, epochSeconds: number) {
  return records(number, epochSeconds, packRecords)
}

function documents(number: number, epochSeconds: number) {
  const format = formats[number % formats.length]!
  const { channel, publisher } = envelopeOf(number, epochSeconds)
  const subtopic = `plant.${format}`
  const made = Array.from({ length: 1 + (number % 3) }, (_, part) => ({ id: `m${number}m`, part, at: { on: true, value: number / 8 } }))
  return {
    subtopic,
    contentType: 'application/json',
    payload: encoder.encode(JSON.stringify(made.length === 1 ? made[0] : made)),
    expected: { table: format, rows: made.map(payload => documentText({ channel, publisher, subtopic, payload })) },
  }
}

function undecodable(number: number) {
  return { payload: encoder.encode(`[{"n":"m${number}m","v":`), expected: { rule: 'json-syntax' } }
}

function withNul(number: number) {
  const made = [{ n: `m${number}m`, vs: 'a\0b' }]
  return { payload: encoder.encode(JSON.stringify(made)), expected: { rule: 'text-nul' } }
}

function withFarTime(number: number) {
  const made = [{ n: `m${number}m`, t: Date.UTC(2200, 0, 1) / 1000, v: 1 }]
  return { payload: encoder.encode(JSON.stringify(made)), expected: { rule: 'time-range' } }
}

/** The log and the transformer accept them, but not the store. */
const refusals: Readonly<Record<StoreName, (number: number) => Kind>> = {
  /** An index row has at most 2,704 bytes. */
  relational: number => withLongIdentifier(number, { publisher: 'p'.repeat(2100) }),
  /** A part of a key has at most 65,535 bytes. */
  widecolumn: number => withLongIdentifier(number, { channel: 'c'.repeat(66_000) }),
  /** Another program has written texts where this number belongs. */
  timeseries: number => refusedDocuments(number, ['text', 1]),
  /** FerretDB does not store an array inside another. */
  document: number => refusedDocuments(number, [1, [[1]]]),
}

function refusedByStore(number: number, epochSeconds: number, store: StoreName): Kind {
  // InfluxDB refuses only what another program has brought about, and to find such a line takes some twenty requests.
  if (store === 'timeseries' && Math.floor(number / 1000) % 10 !== 0) return documents(number, epochSeconds)
  return refusals[store](number)
}

function withLongIdentifier(number: number, origin: Partial<OutgoingMessage>): Kind {
  const made = [{ n: `m${number}m`, v: number }]
  return { ...origin, payload: encoder.encode(JSON.stringify(made)), expected: { rule: 'identifier-length' } }
}

function refusedDocuments(number: number, values: readonly unknown[]): Kind {
  const made = values.map((clash, part) => ({ id: `m${number}m`, part, clash }))
  return {
    subtopic: 'plant.engine',
    contentType: 'application/json',
    payload: encoder.encode(JSON.stringify(made)),
    expected: { rule: 'store-refused' },
  }
}

function withoutKey(number: number) {
  const made = [{ n: `m${number}m`, v: number }]
  return { channel: '', payload: encoder.encode(JSON.stringify(made)), expected: { rule: 'no-key' } }
}

function emptyDocuments() {
  return { subtopic: 'plant.engine', contentType: 'application/json', payload: encoder.encode('[]'), expected: { empty: true as const } }
}
