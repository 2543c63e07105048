// Which transformer a message gets, by its content type.

import { describe, expect, test } from 'vitest'
import { DecodeError } from '../../transformers/decode-error.ts'
import { openAutoTransformer, openSenmlTransformer } from '../../transformers/select.ts'
import type { Transformer } from '../../transformers/transformer.ts'
import { createdUs, envelope, outcomeOf } from './senml/rows.ts'

const pack = new TextEncoder().encode('[{"n":"a","v":1}]')
const rows = [{ index: 0, name: 'a', timeUs: createdUs, value: 1 }]

function decode(transformer: Transformer, contentType: string): unknown {
  return outcomeOf(pack, transformer, { ...envelope, contentType })
}

const unread = [
  'application/senml+cbor',
  'application/json',
  'application/sensml+json',
  'text/plain',
  'constructor',
  '__proto__',
  'APPLICATION/SENML+JSON',
]

describe('auto', () => {
  test('reads application/senml+json as SenML JSON', () => {
    expect(decode(openAutoTransformer(), 'application/senml+json')).toEqual(rows)
  })

  test.each(unread)('refuses %s, and says which types are read', contentType => {
    const fault = decode(openAutoTransformer(), contentType) as DecodeError
    expect(fault).toBeInstanceOf(DecodeError)
    expect(fault.rule).toBe('unsupported-content-type')
    expect(fault.message).toBe(`the content type "${contentType}" is not read; read here: application/senml+json`)
    expect(fault.hint).toContain('application/senml+json')
  })

  test('refuses a message without a content type', () => {
    expect(decode(openAutoTransformer(), '')).toMatchObject({
      rule: 'unsupported-content-type',
      message: 'the message has no content type; read here: application/senml+json',
    })
  })

  test('hands its bounds of time on', () => {
    expect(decode(openAutoTransformer({ timeAheadMaxUs: -1 }), 'application/senml+json')).toMatchObject({ rule: 'time-range' })
  })
})

describe('senml', () => {
  test('reads a message without a content type by its fallback', () => {
    expect(decode(openSenmlTransformer('application/senml+json'), '')).toEqual(rows)
  })

  test('reads a message by its content type', () => {
    expect(decode(openSenmlTransformer(), 'application/senml+json')).toEqual(rows)
  })

  test.each(unread)('refuses %s', contentType => {
    expect(decode(openSenmlTransformer(), contentType)).toMatchObject({ rule: 'unsupported-content-type' })
  })

  test('does not open with a fallback that is not read', () => {
    expect(() => openSenmlTransformer('application/json')).toThrow(
      'the content type "application/json" is not read: choose one of application/senml+json',
    )
  })
})
