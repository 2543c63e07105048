// The examples of RFC 8428, each in a folder of fixtures: input.json of §5.1, or input.hex of §6, and the rows it gives, expected.json.

import { readdirSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { openSenmlCbor } from '../../../transformers/senml/cbor.ts'
import { toCbor } from '../../../transformers/senml/write-cbor.ts'
import { toJson } from '../../../transformers/senml/write-json.ts'
import { outcomeOf, rowsOf } from './rows.ts'

const fixtures = new URL('./fixtures/', import.meta.url)

const folders = readdirSync(fixtures)

function read(folder: string, file: string): string {
  return readFileSync(new URL(`${folder}/${file}`, fixtures), 'utf8')
}

test.each(folders.filter(folder => folder.startsWith('rfc8428-5.1')))('%s', folder => {
  expect(rowsOf(read(folder, 'input.json'))).toEqual(JSON.parse(read(folder, 'expected.json')))
})

test.each(folders.filter(folder => folder.startsWith('rfc8428-6')))('%s, which the writers give back byte for byte', folder => {
  const bytes = Buffer.from(read(folder, 'input.hex').replace(/\s/g, ''), 'hex')
  expect(outcomeOf(bytes, openSenmlCbor())).toEqual(JSON.parse(read(folder, 'expected.json')))
  expect(Buffer.from(toCbor(Buffer.from(toJson(bytes)))).toString('hex')).toBe(bytes.toString('hex'))
})

test('every example of the RFC is there', () => {
  expect(folders).toHaveLength(11)
})
