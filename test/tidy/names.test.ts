// The rule for names finds what it forbids.

import { expect, test } from 'vitest'
import { said, wordedNames } from './names.ts'

const found = (path: string, text: string) =>
  wordedNames([{ path, text: `// A file.\n${text}\n` }]).map(fault => fault.slice(path.length + 1))

test.each([
  ['a type', 'export interface RawRun {}', 'RawRun'],
  ['a constant', 'const rawRun = 1', 'rawRun'],
  ['a function', 'async function* rawRuns() {}', 'rawRuns'],
  ['a class', 'class RawRun {}', 'RawRun'],
  ['a parameter', 'const a = (rawRun: number) => 1', 'rawRun'],
  ['a parameter of a method', 'interface A { b(rawRun: number): void }', 'rawRun'],
  ['a parameter with a default', 'function a(b: number, rawRun = 2) {}', 'rawRun'],
  ['a rest parameter', 'function a(...rawRuns: number[]) {}', 'rawRuns'],
  ['a property of a type', 'interface A { readonly rawRun: number }', 'rawRun'],
  ['a property of a class', 'class A { #rawRun = 1 }', 'rawRun'],
  ['a method', 'class A { rawRun() {} }', 'rawRun'],
  ['a method of a type', 'type A = { rawRun(): void }', 'rawRun'],
  ['a destructured local', 'const { a: rawRun } = b', 'rawRun'],
  ['a destructured local of its own name', 'const { rawRun } = b', 'rawRun'],
  ['a destructured element', 'for (const [, rawRun] of b) {}', 'rawRun'],
  ['what is caught', 'try {} catch (rawRun) {}', 'rawRun'],
])('%s with a word for which the project has another is found', (_, text, name) => {
  expect(found('pipeline/source.ts', text)).toEqual([`2: ${name} says "raw runs?": say chunk`])
})

test('a path with such a word is found, and its extension does not count', () => {
  expect(found('pipeline/writer/closings.ts', '')).toEqual([' the path says "closings": say cleanup'])
  expect(found('test/pipeline/closings.slow.test.ts', '')).toEqual([' the path says "closings": say cleanup'])
})

test.each([
  ['words inside other words', 'const airplane = 1'],
  ['names that are only used', 'makeRoom(rawRun, { closings: 1 }, a.alarm)'],
  ['comments and texts', "// The alarm.\nconst text = 'an alarm'"],
])('%s pass', (_, text) => {
  expect(found('pipeline/source.ts', text)).toEqual([])
})

test('a word is found where it has the meaning in the table, and exceptions pass', () => {
  expect(found('pipeline/live/tail.ts', 'const place = 1')).toEqual([
    '2: place says "places?": say keyset, fetch position, batch location or stream offset',
  ])
  expect(found('config/options/faults.ts', 'const place = 1')).toEqual([])
  expect(found('sinks/options.ts', 'const place = 1')).toEqual([])
  expect(found('pipeline/dead-letters/headers.ts', 'const [letter, deadLetter] = a')).toEqual([
    '2: letter says "(?<!dead )letters?": say dead letter',
  ])
})

test('every restricted rule gives its reason', () => {
  for (const { words, only, except, isPath, why } of said) {
    if (only !== undefined || except !== undefined || isPath === true) expect(why, words).toBeTypeOf('string')
  }
})
