// Content types of a publish: which are accepted, and how parameters are handled.

import { expect, test } from 'vitest'
import { mediaTypeOf } from '../../../pipeline/ingest/content-type.ts'

const taken: [header: string, mediaType: string][] = [
  ['application/senml+json', 'application/senml+json'],
  ['application/senml+cbor', 'application/senml+cbor'],
  ['application/json', 'application/json'],
  ['Application/JSON', 'application/json'],
  ['application/json;charset=utf-8', 'application/json'],
  ['application/json; charset="UTF-8"', 'application/json'],
  ['application/json ; charset=UTF8 ; profile=x', 'application/json'],
  ['application/senml+json; profile="a;charset=latin1;b"', 'application/senml+json'],
  ['application/json;', 'application/json'],
  ['application/json; ;', 'application/json'],
]

test.each(taken)('%j is accepted as %j', (header, mediaType) => {
  expect(mediaTypeOf(header)).toBe(mediaType)
})

const refused: (string | undefined)[] = [
  undefined,
  '',
  'text/plain',
  'application/cbor',
  'application/sensml+json',
  'application/jsonx',
  'application/json, text/plain',
  'application/json; charset=iso-8859-1',
  'application/json; charset=utf-8; charset=utf-16',
  'application/json; charset',
  'application/json; =x',
  'application/json charset=utf-8',
  'application/json; charset="utf-8',
]

test.each(refused)('%j is refused', header => {
  expect(mediaTypeOf(header)).toBeUndefined()
})
