// Texts and numbers as devices send them, and invalid ones.

import type { Random } from '../random.ts'

const characters = [
  'a',
  'Z',
  '0',
  ' ',
  '"',
  '\\',
  '/',
  '\n',
  '\t',
  '\u007f',
  '\u0080',
  'ü',
  'ß',
  '€',
  '\u2028',
  '\ufeff',
  '\ufffd',
  '😀',
  '𐍈',
  "'",
]
const wellKnown = ['', 'on', 'off', '21.5', 'null', 'true', '__proto__', 'constructor', 'toString', '[object Object]', 'ä'.repeat(40)]

/** A text that every store accepts: without NUL and half of a surrogate pair. */
export function anyText(random: Random, lengthMax = 24): string {
  if (random.oneIn(3)) return random.pick(wellKnown)
  let text = ''
  for (let left = random.mostlySmall(lengthMax); left > 0; left--) text += random.pick(characters)
  return text
}

const numbers = [
  0,
  -0,
  1,
  -1,
  0.1,
  23,
  24,
  255,
  256,
  65_535,
  65_536,
  2 ** 31,
  2 ** 32,
  2 ** 53,
  2 ** 53 + 2,
  2 ** 63,
  2 ** 64,
  5e-324,
  1e21,
  65_504,
  1e-7,
]

/** A finite number, whose sum with another one is finite, too. */
export function anyNumber(random: Random): number {
  const sign = random.oneIn(3) ? -1 : 1
  switch (random.below(5)) {
    case 0:
      return sign * random.pick(numbers)
    case 1:
      return sign * random.below(1000)
    case 2:
      return (sign * random.below(100_000)) / 10 ** random.below(7)
    case 3:
      return sign * Math.fround(random.below(2 ** 32) / 7e4)
    default:
      return sign * (random.below(2 ** 32) / 3) * 10 ** (random.below(580) - 290)
  }
}

/** A number as JSON: usually its shortest text, else an equivalent one. */
export function numberText(random: Random, number: number): string {
  const text = Object.is(number, -0) ? '-0' : String(number)
  if (!random.oneIn(6)) return text
  const plain = /^-?\d+$/.test(text)
  switch (random.below(4)) {
    case 0:
      return plain ? `${text}.0` : text
    case 1:
      return text.includes('e') ? text.replace('e', 'E') : `${text}e0`
    case 2:
      return plain ? `${text}000E-3` : text
    default:
      return number.toExponential()
  }
}

/** A text as JSON: usually as by JSON.stringify, else with some of it escaped. */
export function textJson(random: Random, text: string): string {
  const json = JSON.stringify(text)
  if (!random.oneIn(12)) return json
  let escaped = '"'
  for (let at = 0; at < text.length; at++) {
    escaped += random.oneIn(2) ? `\\u${text.charCodeAt(at).toString(16).padStart(4, '0')}` : JSON.stringify(text.charAt(at)).slice(1, -1)
  }
  return `${escaped}"`
}

/** Blanks that JSON allows. */
export function blanks(random: Random): string {
  return random.oneIn(20) ? random.pick([' ', '\n', '\t', '\r\n  ', '   ']) : ''
}
