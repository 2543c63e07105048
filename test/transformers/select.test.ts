// Which transformer a message gets, by what the writer is configured for and by its content type.

import { describe, expect, test } from 'vitest'
import { DecodeError } from '../../transformers/decode-error.ts'
import { RecordBatch } from '../../transformers/record-batch.ts'
import { openAutoTransformer, openSenmlTransformer, openTransformer, type TransformerOptions } from '../../transformers/select.ts'
import type { Transformer } from '../../transformers/transformer.ts'
import { createdUs, envelope, origin, outcomeOf } from './senml/rows.ts'

const pack = new TextEncoder().encode('[{"n":"a","v":1}]')
const rows = [{ index: 0, name: 'a', timeUs: createdUs, value: 1 }]

function decode(transformer: Transformer, contentType: string, payload = pack): unknown {
  return outcomeOf(payload, transformer, { ...envelope, contentType })
}

/** The same pack, `{0: 'a', 2: 1}`. */
const cborPack = Uint8Array.of(0x81, 0xa2, 0x00, 0x61, 0x61, 0x02, 0x01)

const unread = ['application/sensml+json', 'application/sensml+cbor', 'text/plain', 'constructor', '__proto__', 'APPLICATION/SENML+JSON']

describe('auto', () => {
  test('reads application/senml+json as SenML JSON', () => {
    expect(decode(openAutoTransformer(), 'application/senml+json')).toEqual(rows)
  })

  test('reads application/senml+cbor as SenML CBOR', () => {
    expect(decode(openAutoTransformer(), 'application/senml+cbor', cborPack)).toEqual(rows)
  })

  test('reads application/json as JSON documents, with the time fields it was opened with', () => {
    const batch = new RecordBatch()
    batch.beginMessage(origin)
    const transformer = openAutoTransformer({}, { timeFields: [{ fieldName: 't', fieldFormat: 'unix' }] })
    transformer.decode(new TextEncoder().encode('{"t":1600000000}'), { ...envelope, contentType: 'application/json' }, batch)
    expect([batch.documents.format[0], batch.documents.createdUs[0], batch.documents.payload[0]]).toEqual(['room', 1.6e15, { t: 1.6e9 }])
  })

  test('hands its bounds of time to JSON documents, too', () => {
    expect(decode(openAutoTransformer({ timeAheadMaxUs: -1 }), 'application/json')).toMatchObject({ rule: 'time-range' })
  })

  test.each(unread)('refuses %s, and says which types are read', contentType => {
    const fault = decode(openAutoTransformer(), contentType) as DecodeError
    expect(fault).toBeInstanceOf(DecodeError)
    expect(fault.rule).toBe('unsupported-content-type')
    expect(fault.message).toMatch(
      `the content type "${contentType}" is not read; read here: application/senml+json, application/senml+cbor`,
    )
    expect(fault.hint).toContain('application/senml+json, application/senml+cbor')
  })

  test('refuses a message without a content type', () => {
    expect(decode(openAutoTransformer(), '')).toMatchObject({
      rule: 'unsupported-content-type',
      message: expect.stringContaining(
        'the message has no content type; read here: application/senml+json, application/senml+cbor',
      ) as string,
    })
  })

  test('hands its bounds of time on', () => {
    const narrow = openAutoTransformer({ timeAheadMaxUs: -1 })
    expect(decode(narrow, 'application/senml+json')).toMatchObject({ rule: 'time-range' })
    expect(decode(narrow, 'application/senml+cbor', cborPack)).toMatchObject({ rule: 'time-range' })
  })
})

describe('senml', () => {
  test('reads a message without a content type by its fallback', () => {
    expect(decode(openSenmlTransformer('application/senml+json'), '')).toEqual(rows)
  })

  test('reads a message without a content type as CBOR where that is the fallback', () => {
    expect(decode(openSenmlTransformer('application/senml+cbor'), '', cborPack)).toEqual(rows)
  })

  test('reads a message by its content type, whatever the fallback', () => {
    expect(decode(openSenmlTransformer(), 'application/senml+json')).toEqual(rows)
    expect(decode(openSenmlTransformer(), 'application/senml+cbor', cborPack)).toEqual(rows)
    expect(decode(openSenmlTransformer('application/senml+cbor'), 'application/senml+json')).toEqual(rows)
  })

  test.each([...unread, 'application/json'])('refuses %s', contentType => {
    expect(decode(openSenmlTransformer(), contentType)).toMatchObject({ rule: 'unsupported-content-type' })
  })

  test('does not open with a fallback that is not read', () => {
    expect(() => openSenmlTransformer('application/json')).toThrow(
      'the content type "application/json" is not read: choose one of application/senml+json, application/senml+cbor',
    )
  })
})

describe('as configured', () => {
  const options: TransformerOptions = {
    format: 'auto',
    contentType: 'application/senml+json',
    timeFields: [{ fieldName: 't', fieldFormat: 'unix' }],
  }
  const document = new TextEncoder().encode('{"t":1600000000}')

  function timeOf(transformer: Transformer, contentType: string): number | undefined {
    const batch = new RecordBatch()
    batch.beginMessage(origin)
    transformer.decode(document, { ...envelope, contentType }, batch)
    return batch.documents.createdUs[0]
  }

  test('auto reads each of the three types, documents with the time fields, and a message without a type as configured', () => {
    const transformer = openTransformer(options)
    expect(decode(transformer, 'application/senml+json')).toEqual(rows)
    expect(decode(transformer, 'application/senml+cbor', cborPack)).toEqual(rows)
    expect(timeOf(transformer, 'application/json')).toBe(1.6e15)
    expect(decode(transformer, '')).toEqual(rows)
    expect(decode(openTransformer({ ...options, contentType: 'application/senml+cbor' }), '', cborPack)).toEqual(rows)
    expect(decode(transformer, 'text/plain')).toMatchObject({ rule: 'unsupported-content-type' })
  })

  test('senml reads a message by its type, one without a type by the one configured, and no other', () => {
    const transformer = openTransformer({ ...options, format: 'senml', contentType: 'application/senml+cbor' })
    expect(decode(transformer, '', cborPack)).toEqual(rows)
    expect(decode(transformer, 'application/senml+json')).toEqual(rows)
    expect(decode(transformer, 'application/json', document)).toMatchObject({ rule: 'unsupported-content-type' })
    expect(decode(openTransformer({ ...options, format: 'senml' }), '')).toEqual(rows)
  })

  test.each(['', 'application/json', 'application/senml+json', 'text/plain'])(
    'json reads every message as documents, also of type "%s"',
    type => {
      expect(timeOf(openTransformer({ ...options, format: 'json' }), type)).toBe(1.6e15)
    },
  )

  test('bounds of time, and the longest payload of documents, are handed on', () => {
    for (const format of ['auto', 'senml'] as const) {
      expect(decode(openTransformer({ ...options, format }, { timeAheadMaxUs: -1 }), 'application/senml+json')).toMatchObject({
        rule: 'time-range',
      })
    }
    for (const format of ['auto', 'json'] as const) {
      const open = (timeMinUs: number, payloadBytesMax: number) =>
        openTransformer({ ...options, format }, { timeMinUs }, { payloadBytesMax })
      expect(decode(open(1.6e15 + 1, 16), 'application/json', document)).toMatchObject({ rule: 'time-range' })
      expect(decode(open(1.6e15, 15), 'application/json', document)).toMatchObject({ rule: 'payload-size' })
    }
  })
})
