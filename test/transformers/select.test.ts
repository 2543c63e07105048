// What a message is read as, by the writer's configuration, the content type and the root of the payload.

import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { DecodeError } from '../../transformers/decode-error.ts'
import { flattening } from '../../transformers/flattening.ts'
import { RecordBatch } from '../../transformers/record-batch.ts'
import { configuredTransformer, openReadAs, openTransformer, type TransformerOptions } from '../../transformers/select.ts'
import type { Transformer } from '../../transformers/transformer.ts'
import { createdUs, envelope, origin, outcomeOf } from './senml/rows.ts'

const utf8 = (text: string): Uint8Array => new TextEncoder().encode(text)
const pack = utf8('[{"n":"a","v":1}]')
const rows = [{ index: 0, name: 'a', timeUs: createdUs, value: 1 }]
/** The same pack, `{0: 'a', 2: 1}`. */
const cborPack = Uint8Array.of(0x81, 0xa2, 0x00, 0x61, 0x61, 0x02, 0x01)
const document = utf8('{"t":1600000000}')
const timeFields = [{ fieldName: 't', fieldFormat: 'unix' }]

const json = 'application/json'
const senmlJson = 'application/senml+json'
const senmlCbor = 'application/senml+cbor'

function decode(transformer: Transformer, contentType: string, payload = pack): unknown {
  return outcomeOf(payload, transformer, { ...envelope, contentType })
}

/** The format and the time of the first document. */
function documentOf(transformer: Transformer, contentType: string, subtopic = 'room', payload = document): unknown[] {
  const batch = new RecordBatch()
  batch.beginMessage(origin)
  transformer.decode(payload, { ...envelope, contentType, subtopic }, batch)
  return [batch.documents.format[0], batch.documents.createdUs[0]]
}

const unread = ['application/sensml+json', 'application/sensml+cbor', 'text/plain', 'constructor', '__proto__', 'APPLICATION/SENML+JSON']

describe('auto', () => {
  const transformer = openTransformer({ format: 'auto', timeFields })

  test('reads each of the three types, documents with the time fields', () => {
    expect(decode(transformer, senmlJson)).toEqual(rows)
    expect(decode(transformer, senmlCbor, cborPack)).toEqual(rows)
    expect(documentOf(transformer, json)).toEqual(['room', 1.6e15])
  })

  test.each(unread)('refuses %s, and names the accepted types', contentType => {
    const fault = decode(transformer, contentType) as DecodeError
    const read = 'application/senml+json, application/senml+cbor, application/json'
    expect(fault.rule).toBe('unsupported-content-type')
    expect(fault.message).toBe(`the content type "${contentType}" is not supported; supported: ${read}`)
    expect(fault.hint).toContain(read)
  })

  test('reads a message without a content type by its root', () => {
    expect(decode(transformer, '')).toEqual(rows)
    expect(documentOf(transformer, '')).toEqual(['room', 1.6e15])
    expect(documentOf(transformer, '', 'room', utf8('[{"t":1600000000,"level":2}]'))).toEqual(['room', 1.6e15])
    expect(decode(transformer, '', cborPack)).toMatchObject({ rule: 'utf-8' })
  })

  test('reads an object labelled as SenML JSON as a document, but an array as a pack, whatever it holds', () => {
    expect(documentOf(transformer, senmlJson, 'room', utf8('\ufeff {"t":1600000000}'))).toEqual(['room', 1.6e15])
    expect(decode(transformer, senmlJson, utf8('{"a":}'))).toMatchObject({ rule: 'json-syntax' })
    expect(decode(transformer, senmlJson, utf8('[{"level":2}]'))).toMatchObject({ rule: 'record-labels' })
    expect(decode(transformer, senmlJson, utf8('7'))).toMatchObject({ rule: 'root-array' })
  })

  test('reads an array labelled as JSON as documents, also if it is a pack', () => {
    expect(documentOf(transformer, json, 'room', pack)).toEqual(['room', createdUs])
  })

  test('with a configured content type, a message without one is read as if it had that', () => {
    const configured = (contentType: typeof senmlJson | typeof senmlCbor) => openTransformer({ format: 'auto', contentType, timeFields })
    expect(decode(configured(senmlJson), '', utf8('[{"level":2}]'))).toMatchObject({ rule: 'record-labels' })
    expect(documentOf(configured(senmlJson), '')).toEqual(['room', 1.6e15])
    expect(decode(configured(senmlCbor), '', cborPack)).toEqual(rows)
    expect(decode(configured(senmlCbor), '', document)).toMatchObject({ rule: 'root-array' })
    expect(documentOf(configured(senmlCbor), json)).toEqual(['room', 1.6e15])
  })
})

describe('senml', () => {
  test('reads a message by its type, and one without a type by the configured one, which is JSON', () => {
    const cbor = openTransformer({ format: 'senml', contentType: senmlCbor, timeFields })
    expect(decode(cbor, '', cborPack)).toEqual(rows)
    expect(decode(cbor, senmlCbor, cborPack)).toEqual(rows)
    expect(decode(cbor, senmlJson)).toEqual(rows)
    expect(decode(openTransformer({ format: 'senml' }), '')).toEqual(rows)
  })

  test.each([...unread, json])('refuses %s', contentType => {
    expect(decode(openTransformer({ format: 'senml' }), contentType)).toMatchObject({ rule: 'unsupported-content-type' })
  })

  test.each(['', senmlJson])('refuses an object with type "%s"', contentType => {
    expect(decode(openTransformer({ format: 'senml' }), contentType, document)).toMatchObject({ rule: 'root-array' })
  })
})

test.each(['', json, senmlJson, 'text/plain'])('json reads every message as documents, also with type "%s"', type => {
  expect(documentOf(openTransformer({ format: 'json', timeFields }), type)).toEqual(['room', 1.6e15])
})

test.each(['auto', 'json'] as const)('%s stores documents without a subtopic under the default format', format => {
  const transformer = openTransformer({ format, timeFields, defaultFormat: 'events' })
  expect(documentOf(transformer, json, '')).toEqual(['events', 1.6e15])
  expect(documentOf(transformer, json, 'a.room')).toEqual(['room', 1.6e15])
  expect(() => documentOf(openTransformer({ format, timeFields }), json, '')).toThrow('the subtopic is empty')
})

test('time bounds, and the longest payload of documents, are passed on', () => {
  for (const format of ['auto', 'senml'] as const) {
    const narrow = openTransformer({ format }, { timeAheadMaxUs: -1 })
    expect(decode(narrow, senmlJson)).toMatchObject({ rule: 'time-range' })
    expect(decode(narrow, senmlCbor, cborPack)).toMatchObject({ rule: 'time-range' })
  }
  for (const format of ['auto', 'json'] as const) {
    const open = (timeMinUs: number, payloadBytesMax: number) => openTransformer({ format, timeFields }, { timeMinUs }, { payloadBytesMax })
    expect(decode(open(1.6e15 + 1, 16), json, document)).toMatchObject({ rule: 'time-range' })
    expect(decode(open(1.6e15, 15), json, document)).toMatchObject({ rule: 'payload-size' })
  }
})

describe('without a content type', () => {
  const readAs = openReadAs({ format: 'auto' })
  const typeOf = (text: string): string => readAs({ contentType: '' }, utf8(text))

  test.each([
    '[{"n":"a","v":1}]',
    '\ufeff\r\n\t [ { "bn" : "m:", "bt" : 5 } , 7 ]',
    '[{"bt":1600000000,"bver":5},{"n":"a","v":1}]',
    '[{"v":1,"x":{"n":1,"y":["}",{}]},"n":"a"}]',
    '[{"\\"n":[],"n":"a\\"}"}]',
    '[{"n":"a","v":',
  ])('%s is SenML', text => expect(typeOf(text)).toBe(senmlJson))

  test.each([
    '',
    '7',
    '"n"',
    '[]',
    '[{}]',
    '[[{"n":"a","v":1}]]',
    '{"n":"a","v":1}',
    '[7,{"n":"a","v":1}]',
    '[{"n":1,"level":2}]',
    '[{"level":2},{"n":"a","v":1}]',
    '[{"x":{"n":"a"}}]',
    '[{"N":"a","V":1}]',
    '[{"v":1,"level":2,',
    '[{"v":1',
    '[{n:"a"}]',
  ])('%s is JSON', text => expect(typeOf(text)).toBe(json))

  const labels = ['bn', 'bt', 'bu', 'bv', 'bs', 'bver', 'n', 'u', 'v', 'vs', 'vb', 'vd', 's', 't', 'ut']
  const key = fc.oneof(fc.constantFrom(...labels), fc.string({ unit: 'grapheme' }))
  const element = fc.oneof(fc.dictionary(key, fc.jsonValue(), { maxKeys: 4 }), fc.jsonValue())

  test('any other JSON is what its parsed first element says', () => {
    const isPack = (root: unknown): boolean => {
      const first: unknown = Array.isArray(root) ? root[0] : undefined
      if (typeof first !== 'object' || first === null || Array.isArray(first)) return false
      const fields = first as Record<string, unknown>
      const keys = Object.keys(fields)
      if (typeof fields['n'] === 'string' || typeof fields['bn'] === 'string') return true
      return keys.length > 0 && keys.every(name => labels.includes(name))
    }
    fc.assert(
      fc.property(fc.oneof(fc.array(element, { maxLength: 3 }), element), fc.nat(3), (root, indent) => {
        expect(typeOf(JSON.stringify(root, null, indent))).toBe(isPack(root) ? senmlJson : json)
      }),
    )
  })

  test('any bytes are read to their end only', () => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom('[', ']', '{', '}', '"', ',', ':', '\\', 'n', '1', ' '), { maxLength: 30 }), characters => {
        const bytes = utf8(characters.join(''))
        const within = new Uint8Array(bytes.length + 20).fill(0x22)
        within.set(bytes)
        expect(readAs({ contentType: '' }, within.subarray(0, bytes.length))).toBe(readAs({ contentType: '' }, bytes))
      }),
    )
  })
})

describe('content types that a writer takes', () => {
  const message = { payloadBytes: 1000, earliestSeconds: 2 ** 28, aheadDays: 366 }
  const takes = (transformer: TransformerOptions, contentType: string, payload = pack) =>
    flattening(configuredTransformer({ transformer, message })).takes?.(payload, { ...envelope, contentType })

  test('are all without a list', () => {
    expect(takes({ format: 'auto' }, 'text/plain')).toBeUndefined()
  })

  test.each(['auto', 'senml', 'json'] as const)('are those of the list, by the content type of the message, for %s', format => {
    const options: TransformerOptions = { format, contentTypes: [json, senmlCbor] }
    expect([json, senmlCbor, senmlJson, 'text/plain'].map(type => takes(options, type))).toEqual([true, true, false, false])
    const others: TransformerOptions = { format, contentTypes: [senmlJson, 'other'] }
    expect([json, senmlCbor, senmlJson, 'text/plain', 'other'].map(type => takes(others, type))).toEqual([false, false, true, true, true])
  })

  test.each(['auto', 'senml', 'json'] as const)('do not include messages without a type, which are dead letters for %s', format => {
    const options: TransformerOptions = { format, contentType: senmlJson, contentTypes: [json, senmlJson] }
    expect(takes(options, '')).toBe(true)
    const transformer = configuredTransformer({ transformer: options, message })
    expect(() => transformer.decode(pack, { ...envelope, contentType: '' }, new RecordBatch())).toThrow(/no content type/)
  })
})
