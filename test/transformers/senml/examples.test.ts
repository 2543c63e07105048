// The examples of RFC 8428, each in a folder of fixtures: input.json of §5.1, or input.hex of §6, and the resulting rows, expected.json.
//
// The stream of §5.1.2 is completed to a pack there: streams are another format, and not supported.

import { readdirSync, readFileSync } from 'node:fs'
import { Encoder } from 'cbor-x'
import { expect, test } from 'vitest'
import { toCbor, toJson } from '../../../bin/senml-conversion.ts'
import { openSenmlCbor } from '../../../transformers/senml/cbor/cbor.ts'
import { faultOf, outcomeOf, rowsOf } from './rows.ts'

const fixtures = new URL('./fixtures/', import.meta.url)

const folders = readdirSync(fixtures)

function read(folder: string, file: string): string {
  return readFileSync(new URL(`${folder}/${file}`, fixtures), 'utf8')
}

test.each(folders.filter(folder => folder.startsWith('rfc8428-5.1')))('%s', folder => {
  expect(rowsOf(read(folder, 'input.json'))).toEqual(JSON.parse(read(folder, 'expected.json')))
})

test.each(folders.filter(folder => folder.startsWith('rfc8428-6')))('%s, whose JSON gives the same rows', folder => {
  const bytes = Buffer.from(read(folder, 'input.hex').replace(/\s/g, ''), 'hex')
  expect(outcomeOf(bytes, openSenmlCbor())).toEqual(JSON.parse(read(folder, 'expected.json')))
  expect(outcomeOf(toCbor(Buffer.from(toJson(bytes))), openSenmlCbor())).toEqual(outcomeOf(bytes, openSenmlCbor()))
})

test('every example of the RFC is included', () => {
  expect(folders).toHaveLength(12)
})

test('the stream of §5.1.2 is a valid pack once it is completed, and invalid as the RFC prints it', () => {
  const ended = read('rfc8428-5.1.2-streamed-data-points', 'input.json')
  expect(faultOf(ended.replace(/\s*\]\s*$/, ','))).toMatchObject({ rule: 'json-syntax' })
})

test('the pack of §6 equals the one of §5.1.2, in its rows and decoded by cbor-x', () => {
  const rows = (folder: string): unknown => JSON.parse(read(folder, 'expected.json'))
  expect(rows('rfc8428-6-cbor')).toEqual(rows('rfc8428-5.1.2-multiple-data-points-in-time'))
  const bytes = Buffer.from(read('rfc8428-6-cbor', 'input.hex').replace(/\s/g, ''), 'hex')
  // In the RFC's CBOR diagnostic notation.
  expect(new Encoder({ useRecords: false, mapsAsObjects: false }).decode(bytes)).toEqual([
    new Map<number, unknown>([
      [-2, 'urn:dev:ow:10e2073a0108006:'],
      [-3, 1276020076.001],
      [-4, 'A'],
      [-1, 5],
      [0, 'voltage'],
      [1, 'V'],
      [2, 120.1],
    ]),
    ...[-5, -4, -3, -2, -1, 0].map(
      (time, nth) =>
        new Map<number, unknown>([
          [0, 'current'],
          [6, time],
          [2, [1.2, 1.3, 1.4, 1.5, 1.6, 1.7][nth]],
        ]),
    ),
  ])
})
