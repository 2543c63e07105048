// The layout of a topic: for each part of the envelope the places where it may be, in order of preference.
//
//   key · topic · header:<name> · field:<dotted path> · const:<text>
//
// In a message of MQTT also `topic:<n>`, a level of its topic from 1, and `topic:<n>-`, the levels from there on; it has no key.

import { parsePath } from '../../transformers/json/path.ts'
import type { EnvelopePart, TopicLevels } from '../source.ts'

/** One place where a part of the envelope may be. */
export type EnvelopeSource =
  | { readonly from: 'key' }
  | { readonly from: 'topic'; readonly levels?: TopicLevels }
  | { readonly from: 'header'; readonly name: string; readonly nameBytes: Uint8Array }
  /** Keys from the root of a JSON object to the value: `device.id` is `['device', 'id']`, and `device\.id` is `['device.id']`. */
  | { readonly from: 'field'; readonly path: readonly string[]; readonly name: string }
  | { readonly from: 'const'; readonly text: string }

/** Of each part the first place that has it counts. A part without places stays where Sluice writes it, and so does the protocol. */
export type EnvelopeLayout = Readonly<Partial<Record<EnvelopePart, readonly EnvelopeSource[]>>>

/** The allowed sources, worded to follow "give". */
export const sourceWords = 'key, topic, header:<name>, field:<dotted path> or const:<text>'

export function isSource(text: string): boolean {
  const source = sourceOf(text)
  return source !== undefined && !(source.from === 'topic' && source.levels !== undefined)
}

/** The same for messages of MQTT. */
export const mqttSourceWords = 'topic, topic:<level>, topic:<level>-, header:<name>, field:<dotted path> or const:<text>'

export function isMqttSource(text: string): boolean {
  const source = sourceOf(text)
  return source !== undefined && source.from !== 'key'
}

/** The layout of the options; undefined for the one that Sluice writes itself, which is decoded without looking anything up. */
export function layoutOf(options: Readonly<Partial<Record<EnvelopePart, readonly string[]>>>): EnvelopeLayout | undefined {
  const placed = Object.entries(options).filter(([, texts]) => texts !== undefined)
  if (placed.length === 0) return undefined
  return Object.fromEntries(placed.map(([part, texts]) => [part, texts.map(text => sourceOf(text)!)]))
}

/** For messages: `the key, the header device or the field device.id`. */
export function sourcesText(sources: readonly EnvelopeSource[]): string {
  const names = sources.map(sourceName)
  return names.length === 1 ? names[0]! : `${names.slice(0, -1).join(', ')} or ${names.at(-1)}`
}

function sourceName(source: EnvelopeSource): string {
  if (source.from === 'header' || source.from === 'field') return `the ${source.from} ${source.name}`
  if (source.from === 'topic' && source.levels !== undefined) {
    const { first, last } = source.levels
    return `level ${first} of the topic${last === undefined ? ' and what follows' : ''}`
  }
  return source.from === 'const' ? JSON.stringify(source.text) : `the ${source.from}`
}

function sourceOf(text: string): EnvelopeSource | undefined {
  if (text === 'key' || text === 'topic') return { from: text }
  const colon = text.indexOf(':')
  const rest = text.slice(colon + 1)
  if (colon < 0 || rest === '') return undefined
  switch (text.slice(0, colon)) {
    case 'topic': {
      const [, level, open] = /^([1-9]\d{0,4})(-?)$/.exec(rest) ?? []
      if (level === undefined) return undefined
      const first = Number(level)
      return { from: 'topic', levels: { first, last: open === '' ? first : undefined } }
    }
    case 'header':
      return { from: 'header', name: rest, nameBytes: Buffer.from(rest) }
    case 'field': {
      const path = parsePath(rest)
      return path && { from: 'field', path, name: rest }
    }
    case 'const':
      return { from: 'const', text: rest }
    default:
      return undefined
  }
}
