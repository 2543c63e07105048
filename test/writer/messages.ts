// The messages of a load: each carries its number, and everything about it, also what must become of it, follows from that number.

import type { OutgoingMessage } from '../../pipeline/log.ts'

/** What must become of a message: rows in a table, a dead letter under a rule, or nothing. */
export type Expected = { readonly table: string; readonly rows: readonly string[] } | { readonly rule: string } | { readonly empty: true }

export interface TestMessage {
  readonly outgoing: OutgoingMessage
  readonly expected: Expected
}

/** A row as `rowText` makes it of what a store holds. */
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
const formats = ['engine', 'climate', 'Door State'] as const
const packRecords = 12
const encoder = new TextEncoder()

/** The number of the message that bytes or names belong to; undefined where they hold none. */
export function numberIn(text: string): number | undefined {
  const found = /m(\d+)m/.exec(text)
  return found === null ? undefined : Number(found[1])
}

/** Of a thousand messages: how many of which kind, in this order. */
const shares: readonly (readonly [number, (number: number, epochSeconds: number) => Partial<OutgoingMessage> & { expected: Expected }])[] =
  [
    [620, record],
    [180, pack],
    [185, documents],
    [3, undecodable],
    [3, withNul],
    [2, ofAnotherCentury],
    [3, withLongIdentifiers],
    [2, withoutKey],
    [2, emptyDocuments],
  ]

const goodShare = 985

/**
 * @param epochSeconds about which the times of records lie; the same for all messages of a load
 * @param poison whether some are dead letters
 */
export function messageOf(number: number, epochSeconds: number, poison: boolean): TestMessage {
  // Multiplied by a prime, so that the kinds are mixed.
  let share = (number * 617) % (poison ? 1000 : goodShare)
  const kind = shares.find(([size]) => (share -= size) < 0)![1]
  const { expected, ...fields } = kind(number, epochSeconds)
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
    createdUs: epochSeconds * 1e6 + (number % 1e6),
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

function ofAnotherCentury(number: number) {
  const made = [{ n: `m${number}m`, t: Date.UTC(2200, 0, 1) / 1000, v: 1 }]
  return { payload: encoder.encode(JSON.stringify(made)), expected: { rule: 'time-range' } }
}

/** They fit through the log and the transformer, and not into an index of the store. */
function withLongIdentifiers(number: number) {
  const made = [{ n: `m${number}m`, v: number }]
  return { publisher: 'p'.repeat(2100), payload: encoder.encode(JSON.stringify(made)), expected: { rule: 'identifier-length' } }
}

function withoutKey(number: number) {
  const made = [{ n: `m${number}m`, v: number }]
  return { channel: '', payload: encoder.encode(JSON.stringify(made)), expected: { rule: 'no-key' } }
}

function emptyDocuments() {
  return { subtopic: 'plant.engine', contentType: 'application/json', payload: encoder.encode('[]'), expected: { empty: true as const } }
}
