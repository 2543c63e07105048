// That a table which is not the code's is found, and how tables are written.

import { Type } from 'typebox'
import { expect, test } from 'vitest'
import { tables, withTables } from './tables.ts'

const roles = {
  up: Type.Object({
    http: Type.Object({ port: Type.Integer({ default: 1 }) }),
    log: Type.Object({ topic: Type.String({ default: 'a' }) }),
  }),
}
const marked = (name: string, inside: string) => `before\n<!-- options:${name} -->\n${inside}<!-- /options -->\nafter\n`

test('the table of a role, of sections, and of errors stands between its markers, and is the same when written again', () => {
  const text = withTables(`${marked('up', '')}${marked('log', 'outdated\n')}<!-- errors -->\n<!-- /errors -->\n`, roles)
  expect(text.match(/`http\.port`/g)).toHaveLength(1)
  expect(text.match(/`log\.topic`/g)).toHaveLength(2)
  expect(text).toContain('| 403 | `forbidden` | failed to perform authorization over the entity |')
  expect(text).not.toContain('outdated')
  expect(withTables(text, roles)).toBe(text)
})

test('a table that differs from the code is found', () => {
  const good = withTables(marked('http', ''), roles)
  expect(tables([{ path: 'README.md', text: good }], roles)).toEqual([])
  expect(tables([{ path: 'README.md', text: good.replace('`1`', '`2`') }], roles)).toEqual([
    'README.md: its tables are not those of the code: run npm test -- --write',
  ])
})

test('an unknown name and a marker without an end are mistakes', () => {
  expect(() => withTables(marked('htpp', ''), roles)).toThrow('there is no role and no section htpp: known are up, http, log')
  expect(() => withTables('<!-- options:up -->\n| a |\n', roles)).toThrow('a marker has no end')
})
