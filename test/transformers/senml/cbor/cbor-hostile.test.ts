// Large hostile packs take work in proportion to their size: counted by the engine, block by block, and not timed.

import { describe, expect, test } from 'vitest'
import { openSenmlCbor } from '../../../../transformers/senml/cbor/cbor.ts'
import { countWork } from '../../../work-counter.ts'
import { envelope, outcomeOf } from '../rows.ts'

const senmlCbor = openSenmlCbor()
/** Counts the blocks of the decoder. */
const workDone = countWork(url => /\/transformers\/senml\/(cbor\/[a-z-]+|resolve|order|faults)\.ts/.test(url))

/** The work of decoding one payload, and its outcome. */
async function workOf(payload: Uint8Array): Promise<{ work: number; rule: string }> {
  await workDone()
  const outcome = outcomeOf(payload, senmlCbor, { ...envelope, contentType: 'application/senml+cbor' })
  return { work: await workDone(), rule: Array.isArray(outcome) ? 'none' : outcome.rule }
}

function head(major: number, argument: number): number[] {
  if (argument < 24) return [(major << 5) | argument]
  return [(major << 5) | 26, (argument >>> 24) & 0xff, (argument >> 16) & 0xff, (argument >> 8) & 0xff, argument & 0xff]
}

/** `{n: 'a', v: 1, …}` with this many further pairs. */
function withPairs(count: number, pairs: Uint8Array): Uint8Array {
  return Buffer.concat([Uint8Array.from([0x81, ...head(5, count + 2), 0x00, 0x61, 0x61, 0x02, 0x01]), pairs])
}

function repeated(count: number, item: number[]): Buffer {
  return Buffer.alloc(count * item.length, Uint8Array.from(item))
}

/** `{n: 'a', v: 1, 'x': …}` */
function withIgnored(...parts: (number[] | Uint8Array)[]): Uint8Array {
  return withPairs(1, Buffer.concat([Uint8Array.of(0x61, 0x78), ...parts.map(part => Uint8Array.from(part))]))
}

/** Distinct keys of text, and the byte 0 as the value of each. */
function textPairs(count: number, textOf: (at: number) => string): Buffer {
  return Buffer.concat(
    Array.from({ length: count }, (_, at) => {
      const text = Buffer.from(textOf(at))
      return Buffer.concat([Uint8Array.from(head(3, text.length)), text, Uint8Array.of(0)])
    }),
  )
}

/** Words that collide under polynomials modulo a power of two, with any base (Thue and Morse). */
function thueMorse(at: number, bits: number): string {
  const [zero, one] = [
    Array.from({ length: 16 }, (_, n) => (bitCount(n) & 1 ? 'b' : 'a')).join(''),
    Array.from({ length: 16 }, (_, n) => (bitCount(n) & 1 ? 'a' : 'b')).join(''),
  ]
  return Array.from({ length: bits }, (_, bit) => ((at >> bit) & 1 ? one : zero)).join('')
}

function bitCount(number: number): number {
  return number === 0 ? 0 : (number & 1) + bitCount(number >> 1)
}

const kinds: readonly [string, (size: number) => Uint8Array, string][] = [
  [
    'distinct unknown labels',
    size =>
      withPairs(
        size >> 3,
        textPairs(size >> 3, at => at.toString(36).padStart(6, '0')),
      ),
    'none',
  ],
  [
    'unknown labels of one long beginning',
    size =>
      withPairs(
        size >> 8,
        textPairs(size >> 8, at => at.toString(36).padStart(250, '-')),
      ),
    'none',
  ],
  [
    'unknown labels that differ only at their beginning',
    size =>
      withPairs(
        size >> 8,
        textPairs(size >> 8, at => at.toString(36).padEnd(250, '-')),
      ),
    'none',
  ],
  [
    'unknown labels that collide under common hashes',
    size =>
      withPairs(
        size >> 8,
        textPairs(size >> 8, at => thueMorse(at, 15)),
      ),
    'none',
  ],
  [
    'unknown labels of which the last is there already',
    size => {
      const pairs = textPairs(size >> 3, at => at.toString(36).padStart(6, '0'))
      return withPairs((size >> 3) + 1, Buffer.concat([pairs, pairs.subarray(0, 8)]))
    },
    'cbor-duplicate-key',
  ],
  [
    'distinct integer keys of an ignored map',
    size => withIgnored(head(5, size >> 3), ...Array.from({ length: size >> 3 }, (_, at) => [...head(0, at + 2 ** 16), 0xf6])),
    'none',
  ],
  [
    'many records with a few unknown labels each',
    size => {
      const record = withPairs(
        16,
        textPairs(16, at => at.toString(36)),
      ).subarray(1)
      const count = Math.floor(size / record.length)
      return Buffer.concat([Uint8Array.from(head(4, count)), ...Array.from({ length: count }, () => record)])
    },
    'none',
  ],
  [
    'a record with many unknown labels, and many small ones behind it',
    size => {
      const large = withPairs(
        size >> 4,
        textPairs(size >> 4, at => at.toString(36).padStart(6, '0')),
      ).subarray(1)
      const small = withPairs(
        1,
        textPairs(1, () => 'x'),
      ).subarray(1)
      const count = Math.floor(size / 2 / small.length)
      return Buffer.concat([Uint8Array.from(head(4, count + 1)), large, ...Array.from({ length: count }, () => small)])
    },
    'none',
  ],
  ['an ignored array of many items', size => withIgnored(head(4, size), repeated(size, [0])), 'none'],
  ['an ignored array of many empty arrays', size => withIgnored(head(4, size), repeated(size, [0x80])), 'none'],
  ['an ignored array of many maps', size => withIgnored(head(4, size >> 2), repeated(size >> 2, [0xa2, 0x01, 0x00, 0x02, 0x00])), 'none'],
  [
    'many ignored decimal fractions',
    size =>
      withPairs(
        size >> 4,
        Buffer.concat(
          Array.from({ length: size >> 4 }, (_, at) =>
            Buffer.concat([
              textPairs(1, () => at.toString(36).padStart(6, '0')).subarray(0, -1),
              Uint8Array.of(0xc4, 0x82, 0x38, 0xff, 0x1a, 0xff, 0xff, 0xff, 0xff),
            ]),
          ),
        ),
      ),
    'none',
  ],
  ['an ignored text of many characters', size => withIgnored(head(3, size), repeated(size >> 1, [0xc3, 0xa4])), 'none'],
  ['an ignored array of many small texts', size => withIgnored(head(4, size >> 2), repeated(size >> 2, [0x63, 0xe2, 0x82, 0xac])), 'none'],
  [
    'many unfamiliar texts',
    size =>
      Buffer.concat([
        Uint8Array.from(head(4, size >> 5)),
        ...Array.from({ length: size >> 5 }, (_, at) => Buffer.from(`\xa2\x00\x61a\x03\x68${at.toString(36).padStart(8, '0')}`, 'latin1')),
      ]),
    'none',
  ],
  [
    'many decimal fractions',
    size =>
      Buffer.concat([
        Uint8Array.from(head(4, size >> 5)),
        repeated(size >> 5, [0xa2, 0, 0x61, 0x61, 2, 0xc4, 0x82, 0x38, 0xff, 0x1a, 0xff, 0xff, 0xff, 0xff]),
      ]),
    'none',
  ],
  [
    'one text',
    size => Buffer.concat([Uint8Array.from([0x81, 0xa2, 0x00, 0x61, 0x61, 0x03, ...head(3, size)]), repeated(size, [0x61])]),
    'none',
  ],
  [
    'one byte string',
    size => Buffer.concat([Uint8Array.from([0x81, 0xa2, 0x00, 0x61, 0x61, 0x08, ...head(2, size)]), repeated(size, [0x61])]),
    'none',
  ],
  [
    'records in the worst order',
    size =>
      Buffer.concat([
        Uint8Array.from(head(4, size >> 5)),
        ...Array.from({ length: size >> 5 }, (_, at) => Uint8Array.from([0xa3, 0, 0x61, 0x61, 2, 1, 6, ...head(1, at + 2 ** 16)])),
      ]),
    'none',
  ],
  ['nested arrays', size => repeated(size, [0x81]), 'record-object'],
  ['nested arrays under an unknown label', size => withIgnored(repeated(size, [0x81])), 'nesting-depth'],
  ['nested maps under an unknown label', size => withIgnored(repeated(size >> 1, [0xa1, 0x00])), 'nesting-depth'],
  ['nested maps as keys', size => withIgnored(repeated(size, [0xa1])), 'nesting-depth'],
  ['nested tags', size => withIgnored(repeated(size, [0xc1])), 'cbor-tag'],
  ['nested decimal fractions', size => withIgnored(repeated(size, [0xc4])), 'decimal-fraction'],
  [
    'a bignum',
    size => Buffer.concat([Uint8Array.from([0x81, 0xa2, 0x00, 0x61, 0x61, 0x02, 0xc2, ...head(2, size)]), repeated(size, [0xff])]),
    'cbor-tag',
  ],
  ['indefinite lengths', size => repeated(size, [0x9f]), 'cbor-indefinite'],
]

describe('work is in proportion to the size', () => {
  test.each(kinds)('%s', async (_, payloadOf, rule) => {
    const small = await workOf(payloadOf(2 ** 14))
    const large = await workOf(payloadOf(2 ** 18))
    expect([small.rule, large.rule]).toEqual([rule, rule])
    expect(small.work, 'it is counted').toBeGreaterThan(10)
    expect(large.work).toBeLessThan(20 * small.work + 1000)
    expect(large.work).toBeLessThan(40 * 2 ** 18)
  })
})
