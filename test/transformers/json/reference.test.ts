// The tables of rules in docs/reference/json-times.md match the code in both directions.

import { readdirSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'

const folder = new URL('../../../transformers/json/', import.meta.url)

test('every rule in the code is in a table, and every rule in the tables is in the code', () => {
  const source = readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter(file => file.endsWith('.ts'))
    .map(file => readFileSync(new URL(file, folder), 'utf8'))
    .join('\n')
  const inCode = [...source.matchAll(/new DecodeError\(\s*'([a-z0-9-]+)'/g)].map(match => match[1])
  const document = readFileSync(new URL('../../docs/reference/json-times.md', folder), 'utf8')
  const inTables = [...document.matchAll(/^\| `([a-z0-9-]+)` +\|/gm)].map(match => match[1])
  expect(new Set(inTables)).toEqual(new Set(inCode))
  expect(new Set(inTables).size, 'each rule stands in one table').toBe(inTables.length)
  expect(inCode.length).toBeGreaterThan(15)
})
