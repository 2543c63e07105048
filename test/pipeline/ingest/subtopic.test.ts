// Subtopics of a publish: the subtopic of a path, and each rule with its error message.

import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { SubtopicError, subtopicLimits, subtopicOf } from '../../../pipeline/ingest/subtopic.ts'

const taken: [path: string, subtopic: string][] = [
  ['', ''],
  ['/', ''],
  ['bedroom', 'bedroom'],
  ['bedroom/temperature', 'bedroom.temperature'],
  ['bedroom.temperature', 'bedroom.temperature'],
  ['a///b', 'a.b'],
  ['/a/b/', 'a.b'],
  ['a..b', 'a.b'],
  ['./a', 'a'],
  ['urn:dev_1-a/Temp', 'urn:dev_1-a.Temp'],
  ['küche/温度/٣', 'küche.温度.٣'],
  ['messages', 'messages'],
  [Array.from({ length: 16 }, () => 'a').join('/'), Array.from({ length: 16 }, () => 'a').join('.')],
  ['a'.repeat(128), 'a'.repeat(128)],
]

test.each(taken)('the path %j is the subtopic %j', (path, subtopic) => {
  expect(subtopicOf(path)).toBe(subtopic)
})

const refused: [path: string, sentence: RegExp][] = [
  ['a/*', /\* or >/],
  ['a/b*c', /\* or >/],
  ['>', /\* or >/],
  ['a b', /space or a control character/],
  ['a/ /b', /space or a control character/],
  ['a\0b', /space or a control character/],
  ['a\n', /space or a control character/],
  ['a\u00a0b', /space or a control character/],
  ['a\u0085b', /space or a control character/],
  ['a$b', /letters, digits, _ - : and \./],
  ['a"b', /letters, digits/],
  ['a%41', /letters, digits/],
  ['😀', /letters, digits/],
  ['\ud800', /letters, digits/],
  ['\u200d', /letters, digits/],
  [Array.from({ length: 17 }, () => 'a').join('/'), /17 parts: at most 16/],
  ['a'.repeat(129), /129 bytes: at most 128/],
  ['ä'.repeat(65), /130 bytes: at most 128/],
  [Array.from({ length: 9 }, () => 'a'.repeat(120)).join('/'), /1088 bytes: at most 1024/],
]

test.each(refused)('the path %j is refused with a reason', (path, sentence) => {
  expect(() => subtopicOf(path)).toThrow(SubtopicError)
  expect(() => subtopicOf(path)).toThrow(sentence)
})

test('1,024 bytes are accepted and 1,025 are not', () => {
  const parts = (...lengths: number[]): string => lengths.map(length => 'a'.repeat(length)).join('/')
  expect(Buffer.byteLength(subtopicOf(parts(128, 127, 127, 127, 127, 127, 127, 127)))).toBe(1024)
  expect(() => subtopicOf(parts(128, 128, 127, 127, 127, 127, 127, 127))).toThrow(/1025 bytes/)
})

test('an accepted subtopic satisfies every rule, and is its own subtopic', () => {
  const anything = fc.oneof(
    fc.string({ unit: 'binary', maxLength: 40 }),
    fc
      .array(fc.string({ unit: fc.constantFrom('a', 'Z', '9', 'é', '温', '_', '-', ':', '.', '/', '*', ' ', '\u0301'), maxLength: 12 }))
      .map(parts => parts.join('/')),
  )
  fc.assert(
    fc.property(anything, path => {
      let subtopic: string
      try {
        subtopic = subtopicOf(path)
      } catch (error) {
        expect(error).toBeInstanceOf(SubtopicError)
        return
      }
      expect(subtopicOf(subtopic)).toBe(subtopic)
      expect(Buffer.byteLength(subtopic)).toBeLessThanOrEqual(subtopicLimits.bytes)
      if (subtopic === '') return
      for (const part of subtopic.split('.')) expect(part).toMatch(/^[\p{L}\p{Nd}_\-:]+$/u)
    }),
  )
})
