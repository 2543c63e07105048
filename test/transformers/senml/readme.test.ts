// The table of rules in the README says what the code refuses, both ways.

import { readdirSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'

const folder = new URL('../../../transformers/senml/', import.meta.url)

test('every rule of the code is in the table, and every rule of the table in the code', () => {
  const source = readdirSync(folder)
    .filter(file => file.endsWith('.ts'))
    .map(file => readFileSync(new URL(file, folder), 'utf8'))
    .join('\n')
  const inCode = [...source.matchAll(/new DecodeError\(\s*'([a-z0-9-]+)'/g)].map(match => match[1])
  const table = readFileSync(new URL('README.md', folder), 'utf8').split('## Rules')[1]!.split('## Decisions')[0]!
  const inTable = [...table.matchAll(/^\| `([a-z0-9-]+)` +\|/gm)].map(match => match[1])
  expect(new Set(inTable)).toEqual(new Set(inCode))
  expect(inCode.length).toBeGreaterThan(20)
})
