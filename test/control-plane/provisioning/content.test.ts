// The content of a bootstrap configuration: its placeholders, what fills them, and the additional values for the edge agent.

import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { fillContent } from '../../../control-plane/provisioning/content.ts'
import type { ContentValues } from '../../../control-plane/provisioning/layout.ts'
import { parseJsonText } from '../../../http/requests/json-body.ts'
import { faultsOf, layoutOf } from './layouts.ts'

const pem = '-----BEGIN CERTIFICATE-----\nMIIB+"quoted" \\ back\r\n$& $1 {{thing.key}}\n-----END CERTIFICATE-----\n'
const values: ContentValues = {
  externalId: 'gw-1',
  thing: { id: 'thing-id', key: 'thing-key', name: 'a "gateway"' },
  channels: [
    { id: 'control-id', name: 'c', metadata: { type: 'control' } },
    { id: 'data-id', name: 'd', metadata: { type: 'data' } },
    { id: 'plain-id', name: 'p', metadata: {} },
    { id: 'export-id', name: 'e', metadata: { type: 'export' } },
  ],
}
const filled = (content: Record<string, unknown>, of: ContentValues = values) => JSON.parse(fillContent(content, of)) as unknown

test.each([
  ['external_id', 'gw-1'],
  ['thing.id', 'thing-id'],
  ['thing.key', '{{thing.key}}'],
  ['thing.name', 'a "gateway"'],
  ['channel.control.id', 'control-id'],
  ['channel.data.name', 'd'],
  ['channel.2.id', 'plain-id'],
  ['channel.0.id', 'control-id'],
  ['certificate.client_cert', '{{certificate.client_cert}}'],
  ['certificate.client_key', '{{certificate.client_key}}'],
  ['certificate.ca_cert', '{{certificate.ca_cert}}'],
])('{{%s}} is filled, alone and within a text; placeholders of certificates stay until a fetch', (name, value) => {
  expect(filled({ alone: `{{${name}}}`, spaced: `{{ ${name} }}`, within: `a/{{${name}}}/b/{{${name}}}` })).toEqual({
    alone: value,
    spaced: value,
    within: `a/${value}/b/${value}`,
  })
})

test('a channel whose type is a number does not replace the number of another', () => {
  const channels = ['1', '0'].map(type => ({ id: `of type ${type}`, name: '', metadata: { type } }))
  expect(filled({ a: '{{channel.0.id}}', b: '{{channel.1.id}}' }, { ...values, channels })).toEqual({ a: 'of type 1', b: 'of type 0' })
})

test('the types of the file are kept, at every depth', () => {
  const content = { port: '9000', qos: 0, retain: true, none: {}, list: [{ deep: ['{{thing.id}}', 2] }] }
  expect(filled(content)).toEqual({ ...content, list: [{ deep: ['thing-id', 2] }] })
})

test.each([
  ['empty', { username: '', password: '', channel: '', control: '', data: '' }],
  ['absent', {}],
])('the keys that the edge agent expects are filled if they are %s', (_name, given) => {
  expect(filled({ agent: { mqtt: { url: 'u', ...given }, channels: { ...given } }, export: { mqtt: { ...given } } })).toMatchObject({
    agent: { mqtt: { url: 'u', username: 'thing-id', password: '{{thing.key}}' }, channels: { control: 'control-id', data: 'data-id' } },
    export: { mqtt: { username: 'thing-id', password: '{{thing.key}}', channel: 'export-id' } },
  })
})

test('keys that are set stay, an absent section is not added, and a value that is not a section is left alone', () => {
  const mqtt = { username: 'u', password: 'p', channel: 'c' }
  expect(filled({ export: { mqtt } })).toEqual({ export: { mqtt } })
  expect(filled({ agent: { log: {} } })).toEqual({ agent: { log: {} } })
  expect(filled({ agent: 'text', export: { mqtt: [] } })).toEqual({ agent: 'text', export: { mqtt: [] } })
})

test.each([
  [['data', 'control'], 1, 0, 0],
  [[undefined, undefined], 0, 1, 1],
  [['data', undefined], 1, 0, 0],
  [['export', 'control', 'data'], 1, 2, 0],
])('of channels %j, control is number %i, data %i, and export publishes to %i', (types, control, data, exported) => {
  const channels = types.map((type, index) => ({ id: String(index), name: '', metadata: type === undefined ? {} : { type } }))
  expect(filled({ agent: { channels: {} }, export: { mqtt: {} } }, { ...values, channels })).toMatchObject({
    agent: { channels: { control: String(control), data: String(data) } },
    export: { mqtt: { channel: String(exported) } },
  })
})

test('a layout with one channel fills what it can', () => {
  expect(filled({ agent: { channels: {} } }, { ...values, channels: values.channels.slice(0, 1) })).toEqual({
    agent: { channels: { control: 'control-id' } },
  })
})

const known = 'known are external_id, thing.id, thing.key, thing.name, channel.<type or number from 0>.id'

test.each([
  ['an unknown one', '{{thing.secret}}', expect.stringContaining(`content.a {{thing.secret}}: unknown placeholder: ${known}`)],
  ['one with a typing error', '{{thing.ky}}', expect.stringContaining('unknown placeholder (did you mean {{thing.key}}?): known are')],
  ['an empty one', '{{}}', expect.stringContaining('unknown placeholder')],
  [
    'a channel that is not there',
    '{{channel.export.id}}',
    expect.stringMatching(/the layout has no such channel: use control, data, or a number from 0 to 1$/),
  ],
  ['the number of no channel', '{{channel.2.id}}', expect.stringMatching(/the layout has no such channel/)],
  [
    'a certificate that is not issued',
    '{{certificate.ca_cert}}',
    expect.stringMatching(/no certificates are issued: set bootstrap\.x509_provision/),
  ],
  ['one that does not end', 'a {{thing.id', expect.stringMatching(/has \{\{ without \}\}/)],
  ['one in three braces', '{{{thing.id}}}', expect.stringContaining('unknown placeholder')],
])('a placeholder for %s stops the start', (_name, text, fault) => {
  expect(faultsOf(() => layoutOf(`[bootstrap.content]\na = "${text}"`))).toEqual([fault])
})

test('certificates are filled if they are issued, and channels of one type are named by number', () => {
  expect(layoutOf('[bootstrap]\nx509_provision = true\n[bootstrap.content]\na = "{{certificate.ca_cert}}"').warnings).toEqual([])
  const twice = '[[channels]]\nmetadata = { type = "data" }\n'.repeat(2)
  expect(faultsOf(() => layoutOf(`${twice}[bootstrap.content]\na = "{{channel.data.id}}{{channel.1.id}}"`))).toEqual([
    'config.toml:6: bootstrap.content.a {{channel.data.id}}: several channels have the type data: name one by its number, from 0 to 1',
  ])
  expect(faultsOf(() => layoutOf('channels = []\n[bootstrap.content]\na = "{{channel.0.id}}"'))).toEqual([
    expect.stringMatching(/has no channels$/),
  ])
})

test.each([
  [
    'a date',
    'a = 2024-01-01T00:00:00Z',
    'config.toml:2: bootstrap.content.a is a date, which JSON does not have: give it as text in quotes',
  ],
  ['nan', 'a = nan', 'config.toml:2: bootstrap.content.a is nan, which JSON does not have: remove it, or give it as text'],
  ['inf', 'a = inf', /^config\.toml:2: bootstrap\.content\.a is a number beyond/],
  ['a placeholder in a key', '"{{thing.id}}" = 1', /has a placeholder in the name of its key "\{\{thing\.id\}\}"/],
  ['17 levels', `${'a.'.repeat(17)}b = 1`, /is nested deeper than 16 levels/],
  ['more than 64 KiB', `a = "${'x'.repeat(65_536)}"`, /has 65544 bytes as JSON/],
])('%s in the content stops the start', (_name, line, fault) => {
  const found = faultsOf(() => layoutOf(`[bootstrap.content]\n${line}`))
  expect(found).toEqual([typeof fault === 'string' ? fault : expect.stringMatching(fault)])
})

/** Texts with quotes, newlines, and special characters of replacements, as PEM and names may have them. */
const hostile = fc
  .oneof(fc.string({ unit: 'grapheme' }), fc.constantFrom('"', '\n', '\\', '$&', "$'", pem.replace('{{thing.key}}', '')))
  .map(text => text.replaceAll('{', '('))
const value = fc.oneof(hostile, fc.constantFrom('{{certificate.client_key}}', '{{thing.key}}', '{', '{{'))
const valuesOfAll = fc.record({ externalId: value, id: value, key: value, name: value }).map(
  ({ externalId, id, key, name }): ContentValues => ({
    externalId,
    thing: { id, key, name },
    channels: [{ id: key, name: id, metadata: { type: 'data' } }],
  }),
)
/** Each placeholder, and its value. */
const meaning = new Map<string, (values: ContentValues) => string>(
  Object.entries({
    '{{external_id}}': ({ externalId }) => externalId,
    '{{thing.id}}': ({ thing }) => thing.id,
    // Filled at a fetch.
    '{{thing.key}}': () => '{{thing.key}}',
    '{{thing.name}}': ({ thing }) => thing.name,
    '{{channel.0.id}}': ({ channels }) => channels[0]!.id,
    '{{channel.data.name}}': ({ channels }) => channels[0]!.name,
  }),
)
const parts = fc.array(fc.oneof(hostile, fc.constantFrom(...meaning.keys())))

test('whatever the values are, each part of a text is replaced by its value, and nothing else changes', () => {
  fc.assert(
    fc.property(parts, valuesOfAll, (parts, values) => {
      const expected = parts.map(part => meaning.get(part)?.(values) ?? part).join('')
      expect(filled({ a: parts.join('') }, values)).toEqual({ a: expected })
    }),
  )
})

const { table: trees } = fc.letrec<{ value: unknown; table: Record<string, unknown> }>(tie => ({
  value: fc.oneof(
    { maxDepth: 4 },
    parts.map(texts => texts.join('')),
    fc.integer(),
    fc.boolean(),
    tie('table'),
    fc.array(tie('value'), { maxLength: 3 }),
  ),
  table: fc.dictionary(hostile, tie('value'), { maxKeys: 4 }),
}))

test('whatever the content is, it becomes JSON of the same shape, without placeholders', () => {
  fc.assert(
    fc.property(trees, valuesOfAll, (content, values) => {
      const written = fillContent(content, values)
      expect(written.replaceAll('{{thing.key}}', '')).not.toContain('{{')
      expect(shapeOf(parseJsonText(written))).toEqual(shapeOf(content))
    }),
  )
})

/** Keys, types, numbers and booleans: everything but the texts. */
function shapeOf(value: unknown): unknown {
  if (typeof value === 'string') return 'text'
  if (Array.isArray(value)) return value.map(shapeOf)
  if (typeof value !== 'object' || value === null) return value
  return Object.entries(value).map(([key, inner]) => [key, shapeOf(inner)])
}
