// The bootstrap content of a layout: its placeholders, checked at the start and filled for each mapping, and the values that the edge agent expects.

import { nearest } from '../../config/options/nearest.ts'
import { metadataFault } from '../entity.ts'
import type { ContentTree, ContentValues, Layout } from './layout.ts'
import { placeholder, requestWords } from './names.ts'

/** A fault in a tree of the layout file: the keys that lead to it, and what is wrong there. */
export interface TreeFault {
  readonly keys: readonly string[]
  readonly problem: string
}

type Table = Record<string, unknown>

const knownWords =
  'external_id, thing.id, thing.key, thing.name, channel.<type or number from 0>.id, channel.<…>.name, certificate.client_cert, certificate.client_key, certificate.ca_cert'

/** These stay placeholders, and are filled at each fetch, because certificates and keys change and private keys are erased. */
const filledAtFetch = ['thing.key', 'certificate.client_cert', 'certificate.client_key', 'certificate.ca_cert'] as const

/**
 * Fills the content of a bootstrap configuration: each `{{…}}` with its value, except those that a fetch fills, and the keys that the edge agent
 * expects, if their section exists and the key is absent or empty. A value that looks like a placeholder is plain text, also at a fetch.
 *
 * @param content of a layout without `contentFaults`
 * @returns JSON text: agents parse it as such (SPEC §2: the agent's files are built from it)
 */
export function fillContent(content: ContentTree, values: ContentValues): string {
  const known = placeholdersOf(values)
  const template = structuredClone(content)
  fillAgent(template, values)
  return JSON.stringify(template).replace(placeholder, (whole, inJson: string) => {
    const name = (JSON.parse(`"${inJson}"`) as string).trim()
    const value = known.get(name)
    if (value === undefined) throw new Error(`the placeholder ${whole} was not checked at the start`)
    if ((filledAtFetch as readonly string[]).includes(name)) return value
    // Escaped, so that a brace in a value cannot begin a placeholder.
    return JSON.stringify(value).slice(1, -1).replaceAll('{', '\\u007b')
  })
}

/** Everything that is wrong with the content: its size, types that JSON does not have, and placeholders that the layout cannot fill. */
export function contentFaults(content: ContentTree, layout: Pick<Layout, 'channels' | 'bootstrap'>): TreeFault[] {
  const blank = { id: '', name: '', key: '' }
  const known = placeholdersOf({ externalId: '', thing: blank, channels: layout.channels.map(channel => ({ ...blank, ...channel })) })
  return treeFaults(content, name => {
    if (name.startsWith('certificate.') && known.has(name) && !layout.bootstrap.hasCertificates) {
      return 'no certificates are issued: set bootstrap.x509_provision = true, or remove it'
    }
    if (known.has(name)) return undefined
    const channel = /^channel\.(.*)\.(?:id|name)$/s.exec(name)?.[1]
    if (channel !== undefined) return channelProblem(channel, layout)
    const near = nearest(name, [...known.keys()])
    return `unknown placeholder${near === undefined ? '' : ` (did you mean {{${near}}}?)`}: known are ${knownWords}`
  })
}

/** Like `contentFaults`, for a name. */
export function nameFaults(name: string): TreeFault[] {
  return treeFaults({ name }, word =>
    requestWords.has(word) ? undefined : 'in a name {{external_id}} and {{name}} of the request are filled, and nothing else',
  )
}

/** Like `contentFaults`, for metadata, in which placeholders are not filled. */
export function plainFaults(tree: ContentTree): TreeFault[] {
  return treeFaults(tree, () => 'placeholders are filled only in names and in bootstrap.content')
}

/** @param problemOf what is wrong with a placeholder's name, or undefined */
function treeFaults(tree: ContentTree, problemOf: (name: string) => string | undefined): TreeFault[] {
  const size = metadataFault(tree, '')
  if (size !== undefined) return [{ keys: keysOf(size.pointer), problem: size.detail }]
  const faults: TreeFault[] = []
  const walk = (value: unknown, keys: readonly string[]): void => {
    const note = (problem: string): number => faults.push({ keys, problem })
    if (typeof value === 'string') {
      for (const [whole, name] of value.matchAll(placeholder)) {
        const problem = problemOf(name!)
        if (problem !== undefined) note(`${whole.slice(0, 100)}: ${problem}`)
      }
      if (value.replaceAll(placeholder, '').includes('{{')) note('has {{ without }}: write a placeholder such as {{thing.id}}')
    } else if (Number.isNaN(value)) {
      note('is nan, which JSON does not have: remove it, or give it as text')
    } else if (value instanceof Date) {
      note('is a date, which JSON does not have: give it as text in quotes')
    } else if (typeof value === 'object' && value !== null) {
      for (const [key, inner] of Object.entries(value)) {
        if (key.includes('{{')) note(`has a placeholder in the name of its key ${JSON.stringify(key)}: they are filled in values alone`)
        walk(inner, [...keys, key])
      }
    }
  }
  walk(tree, [])
  return faults
}

function channelProblem(channel: string, { channels }: Pick<Layout, 'channels'>): string {
  const types = channels.map(typeOf).filter(type => type !== undefined)
  if (types.includes(channel)) return `several channels have the type ${channel}: name one by its number, from 0 to ${channels.length - 1}`
  if (channels.length === 0) return 'the layout has no channels'
  const known = [...new Set(types)].map(type => `${type}, `).join('')
  return `the layout has no such channel: use ${known}or a number from 0 to ${channels.length - 1}`
}

/** The values by placeholder; a channel by its number from 0, and by its type if no other channel has it. */
function placeholdersOf({ externalId, thing, channels }: ContentValues): Map<string, string> {
  const known = new Map([
    ['external_id', externalId],
    ['thing.id', thing.id],
    ['thing.name', thing.name],
    ...filledAtFetch.map(name => [name, `{{${name}}}`] as const),
  ])
  const types = channels.map(typeOf)
  const uniqueTypes = types.filter(type => type !== undefined && types.indexOf(type) === types.lastIndexOf(type))
  // Numbers last, so that a type such as "1" does not replace a channel's number.
  for (const called of [...uniqueTypes, ...channels.keys()]) {
    const { id, name } = channels[typeof called === 'number' ? called : types.indexOf(called)]!
    known.set(`channel.${called}.id`, id).set(`channel.${called}.name`, name)
  }
  return known
}

function typeOf({ metadata }: { readonly metadata: Readonly<Record<string, unknown>> }): string | undefined {
  const type = metadata['type']
  return typeof type === 'string' && type !== '' ? type : undefined
}

/** The agent finds its channels by type, or takes the first as control and the second as data. */
function fillAgent(content: Table, { channels }: ContentValues): void {
  const channelOfType = (type: string) => channels.find(channel => typeOf(channel) === type)
  const control = channelOfType('control') ?? channels.find(channel => typeOf(channel) !== 'data')
  const data = channelOfType('data') ?? channels.find(channel => channel !== control)
  const wanted: readonly [section: [string, string], values: Readonly<Record<string, string | undefined>>][] = [
    [['agent', 'mqtt'], { username: '{{thing.id}}', password: '{{thing.key}}' }],
    [['agent', 'channels'], { control: control?.id, data: data?.id }],
    [['export', 'mqtt'], { username: '{{thing.id}}', password: '{{thing.key}}', channel: (channelOfType('export') ?? data)?.id }],
  ]
  for (const [[part, section], values] of wanted) {
    const table = tableIn(tableIn(content, part), section)
    if (table === undefined) continue
    for (const [key, value] of Object.entries(values)) {
      if (value !== undefined && (table[key] === undefined || table[key] === '')) table[key] = value
    }
  }
}

function tableIn(table: Table | undefined, key: string): Table | undefined {
  const inner = table !== undefined && Object.hasOwn(table, key) ? table[key] : undefined
  return typeof inner === 'object' && inner !== null && !Array.isArray(inner) ? (inner as Table) : undefined
}

/** The keys of a JSON pointer (RFC 6901 §3). */
function keysOf(pointer: string): string[] {
  return pointer
    .split('/')
    .slice(1)
    .map(part => part.replaceAll('~1', '/').replaceAll('~0', '~'))
}
