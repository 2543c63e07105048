// The lines of `tail`: what a message looks like, and that nothing a device sends acts on the terminal.

import { expect, test } from 'vitest'
import { layoutOf } from '../../../pipeline/envelope/layout.ts'
import { openDecoder } from '../../../pipeline/writer/decode.ts'
import { type FetchedMessage, laidOutMessage, linesOf, rawMessageOf } from '../../../roles/tools/tail.ts'
import { openTransformer } from '../../../transformers/select.ts'

const decoder = openDecoder({
  transformer: openTransformer({ format: 'auto' }),
  subscribed: () => true,
  message: { payloadBytes: 1 << 20, earliestSeconds: 2 ** 28, aheadDays: 366 },
})

function message(value: string | Buffer, more: Partial<FetchedMessage> = {}): FetchedMessage {
  const headers = {
    subtopic: 'room.attic',
    publisher: 't1',
    protocol: 'http',
    created: '1700000000123456789',
    'content-type': 'Application/SenML+JSON; v=1',
  }
  const texts = Object.fromEntries(Object.entries(headers).map(([name, text]) => [name, Buffer.from(text)]))
  return {
    key: Buffer.from('c1'),
    value: Buffer.from(value),
    timestamp: '1600000000000',
    offset: '7',
    headers: texts,
    ...more,
  }
}

const shown = (given: FetchedMessage, flags: { name?: string; json?: boolean } = {}): string[] => [
  ...linesOf(rawMessageOf(given), 'messages-0-7', flags, decoder),
]

test('a message is a line of its time, channel, subtopic, publisher and payload', () => {
  expect(shown(message('[{"n":"a","v":1}]'))).toEqual(['2023-11-14T22:13:20.123456789Z  c1  room.attic  t1  [{"n":"a","v":1}]\n'])
})

test('a message without an envelope has the time of its record', () => {
  expect(shown(message('x', { key: null, headers: {} }))).toEqual(['2020-09-13T12:26:40.000000000Z  -  -  -  x\n'])
  expect(shown(message('x', { timestamp: '9223372036854775807', headers: {} }))[0]).toMatch(/^[\d.e+]+ us {2}c1 {2}-/)
  expect(shown(message('x', { headers: { created: Buffer.from('-1') } }))[0]).toMatch(/^1969-12-31T23:59:59\.999999999Z /)
})

test('of a header that is there twice the last one counts, and a hostile name is no header', () => {
  const headers: FetchedMessage['headers'] = { subtopic: [Buffer.from('a'), Buffer.from('b')] }
  Object.setPrototypeOf(headers, { publisher: Buffer.from('p') })
  expect(rawMessageOf(message('x', { headers }))).toMatchObject({ subtopic: 'b', publisher: '', protocol: 'kafka' })
})

test('the parts of a message of another producer are where its section envelope places them', () => {
  const laidOut = (envelope: Parameters<typeof layoutOf>[0]) => ({ layout: layoutOf(envelope)!, topic: 'plant', payloadBytesMax: 1000 })
  const value = '{"device":{"id":"press-7"},"at":1790000001}'
  const given = message(value, { key: null, headers: { kind: [Buffer.from('old'), Buffer.from('readings')] } })
  const envelope = { channel: ['key', 'field:device.id'], subtopic: ['header:kind'], publisher: ['topic'], created: ['field:at'] }
  expect(laidOutMessage(given, laidOut(envelope))).toMatchObject({
    fault: undefined,
    offset: 7,
    channel: 'press-7',
    subtopic: 'readings',
    publisher: 'plant',
    createdUs: 1_790_000_001_000_000,
    payload: Buffer.from(value),
  })
  expect(laidOutMessage(given, laidOut({ subtopic: ['header:constructor', 'const:s'] }))).toMatchObject({
    fault: { rule: 'no-key' },
    subtopic: 's',
    createdUs: 1_600_000_000_000_000,
  })
})

test('nothing reaches the terminal unescaped, from any part of a message', () => {
  const evil = '\u001b]0;owned\u0007\u009b2J\r\n\u202e\u2028'
  const headers = Object.fromEntries(['subtopic', 'publisher', 'protocol', 'content-type'].map(name => [name, Buffer.from(evil)]))
  const hostile = message(evil, { key: Buffer.from(evil), headers })
  const pack = message(JSON.stringify([{ n: 'a', vs: evil, u: evil }]), { key: Buffer.from(evil) })
  const lines = [shown(hostile), shown(hostile, { json: true }), shown(pack, { name: 'a' }), shown(pack, { name: 'a', json: true })].flat()
  expect(lines).toHaveLength(4)
  for (const line of lines) {
    expect(line.slice(0, -1)).not.toMatch(/\p{Cc}/u)
    expect(line.endsWith('\n')).toBe(true)
  }
  expect(lines[0]).not.toMatch(/[\u202e\u2028]/)
  expect(JSON.parse(lines[1]!)).toMatchObject({ channel: evil, payload: evil })
})

test('a long text is shortened for the terminal, and whole in JSON', () => {
  const long = 'é'.repeat(1 << 20)
  const [line] = shown(message(long, { key: Buffer.from(long) }))
  expect(line!.length).toBeLessThan(400)
  expect(line).toMatch(/é…\n$/)
  expect(JSON.parse(shown(message(long), { json: true })[0]!).payload).toBe(long)
})

test('a payload that is not UTF-8 is hexadecimal, and base64 in JSON', () => {
  const cbor = Buffer.from('81a2006161020a', 'hex')
  expect(shown(message(cbor))[0]).toMatch(/ {2}0x81a2006161020a\n$/)
  expect(JSON.parse(shown(message(cbor), { json: true })[0]!)).toEqual({
    id: 'messages-0-7',
    time: '2023-11-14T22:13:20.123456789Z',
    channel: 'c1',
    subtopic: 'room.attic',
    publisher: 't1',
    protocol: 'http',
    content_type: 'application/senml+json',
    payload_base64: cbor.toString('base64'),
  })
})

test('a name shows its records, resolved, and nothing of messages that have none', () => {
  const pack = message('[{"bn":"room:","bu":"Cel","n":"t","v":21.5},{"n":"h","v":1},{"n":"t","t":-1,"v":22}]')
  expect(shown(pack, { name: 'room:t' }).map(line => line.split('  ').at(-1))).toEqual([
    '{"n":"room:t","u":"Cel","v":22,"t":1699999999.123456}\n',
    '{"n":"room:t","u":"Cel","v":21.5,"t":1700000000.123456}\n',
  ])
  expect(JSON.parse(shown(pack, { name: 'room:h', json: true })[0]!)).toMatchObject({ channel: 'c1', record: { n: 'room:h', v: 1 } })
  expect(shown(pack, { name: 't' })).toEqual([])
  expect(shown(message('no pack'), { name: 't' })).toEqual([])
  expect(shown(message('[{"n":"t","v":1}]', { key: null }), { name: 't' })).toEqual([])
})
