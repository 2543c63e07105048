// The tables of rules in docs/reference/senml.md match the code in both directions.

import { readdirSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'

const folder = new URL('../../../transformers/senml/', import.meta.url)

test('every rule in the code is in the table, and every rule in the table is in the code', () => {
  const source = readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter(file => file.endsWith('.ts'))
    .map(file => readFileSync(new URL(file, folder), 'utf8'))
    .join('\n')
  const inCode = [...source.matchAll(/new DecodeError\(\s*'([a-z0-9-]+)'/g)].map(match => match[1])
  const table = readFileSync(new URL('../../docs/reference/senml.md', folder), 'utf8').split('## Rules')[1]!
  const inTable = [...table.matchAll(/^\| `([a-z0-9-]+)` +\|/gm)].map(match => match[1])
  expect(new Set(inTable)).toEqual(new Set(inCode))
  expect(inCode.length).toBeGreaterThan(20)
})
