// The JSON examples of RFC 8428 §5.1, each in a folder of fixtures: input.json and the rows it gives, expected.json.

import { readdirSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { rowsOf } from './rows.ts'

const fixtures = new URL('./fixtures/', import.meta.url)

test.each(readdirSync(fixtures))('%s', folder => {
  const read = (file: string): string => readFileSync(new URL(`${folder}/${file}`, fixtures), 'utf8')
  expect(rowsOf(read('input.json'))).toEqual(JSON.parse(read('expected.json')))
})

test('every example of the RFC is there', () => {
  expect(readdirSync(fixtures)).toHaveLength(10)
})
