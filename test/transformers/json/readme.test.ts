// The tables of rules in the README say what the code refuses, both ways.

import { readdirSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'

const folder = new URL('../../../transformers/json/', import.meta.url)

test('every rule of the code is in a table, and every rule of the tables in the code', () => {
  const source = readdirSync(folder)
    .filter(file => file.endsWith('.ts'))
    .map(file => readFileSync(new URL(file, folder), 'utf8'))
    .join('\n')
  const inCode = [...source.matchAll(/new DecodeError\(\s*'([a-z0-9-]+)'/g)].map(match => match[1])
  const inTables = [...readFileSync(new URL('README.md', folder), 'utf8').matchAll(/^\| `([a-z0-9-]+)` +\|/gm)].map(match => match[1])
  expect(new Set(inTables)).toEqual(new Set(inCode))
  expect(new Set(inTables).size, 'each rule stands in one table').toBe(inTables.length)
  expect(inCode.length).toBeGreaterThan(15)
})
