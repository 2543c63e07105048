// Text from a device cannot control a terminal, hide in a line, or pass for a line of ours.

import { expect, test } from 'vitest'
import { jsonLine, payloadLines, plain, short, table } from '../../../roles/tools/text.ts'

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text)

test.each([
  ['an escape sequence', '\u001b]0;owned\u0007', '\\u001b]0;owned\\u0007'],
  ['one of the upper control characters', '\u009b2J', '\\u009b2J'],
  ['an end of line', 'a\r\nb', 'a\\u000d\\u000ab'],
  ['what turns the direction of text', 'a\u202eb', 'a\\u{202e}b'],
  ['what has no width', 'a\u200bb\ufeff', 'a\\u{200b}b\\u{feff}'],
  ['separators of lines', 'a\u2028b', 'a\\u{2028}b'],
  ['half a surrogate pair', 'a\ud800', 'a\ufffd'],
  ['letters of any script', 'größe 温度 😀', 'größe 温度 😀'],
])('%s', (_what, text, expected) => {
  expect(plain(text)).toBe(expected)
})

test('a long text is cut after it was escaped', () => {
  expect(short('\u001b'.repeat(10), 12)).toBe('\\u001b\\u001…')
})

test('JSON stays JSON, on one line', () => {
  const value = { text: 'a\u001b\u009b\u007f\n"\\' }
  expect(jsonLine(value)).not.toMatch(/[\u007f-\u009f]/)
  expect(jsonLine(value).slice(0, -1)).not.toMatch(/\p{Cc}/u)
  expect(JSON.parse(jsonLine(value))).toEqual(value)
})

test('a text payload is shown as text, with indented lines so that none passes for ours', () => {
  expect(payloadLines(bytes('{"a":1}\nstate      open\u001b[2J'))).toEqual(['  {"a":1}', '  state      open\\u001b[2J'])
})

test('a payload of bytes is shown in hexadecimal', () => {
  expect(payloadLines(new Uint8Array([0, 1, 0xff, 0x41, ...bytes('0123456789abcdef')]))).toEqual([
    '  00000000  00 01 ff 41 30 31 32 33 34 35 36 37 38 39 61 62  ...A0123456789ab',
    '  00000010  63 64 65 66                                      cdef',
  ])
  expect(payloadLines(bytes('a\u0000b'))).toEqual([`  00000000  ${'61 00 62'.padEnd(47)}  a.b`])
  expect(payloadLines(new Uint8Array(0))).toEqual(['  '])
})

test('columns are as wide as their content', () => {
  expect(
    table([
      ['ID', 'RULE'],
      ['1-0-17', 'x'],
    ]),
  ).toBe('ID      RULE\n1-0-17  x\n')
})
