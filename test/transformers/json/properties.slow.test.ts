// Properties of every payload. The tests' names contain the seed of a run; SEED=<seed> repeats it.

import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { DecodeError } from '../../../transformers/decode-error.ts'
import { openJsonDocuments } from '../../../transformers/json/documents.ts'
import { jsonText } from '../../../transformers/json/json-text.ts'
import { type JsonValue, Outcome, RecordBatch } from '../../../transformers/record-batch.ts'
import { anyTime, createdNs, envelope, origin, outcomeOf, rowsIn, timeOf, utf8 } from './rows.ts'

const seed = Number(process.env['SEED'] ?? Date.now() % 2 ** 31)
const numRuns = 1500

const transformer = openJsonDocuments({
  timeFields: [
    { fieldName: 't', fieldFormat: 'unix' },
    { fieldName: 'at', fieldFormat: '2006-01-02 15:04:05 MST', location: 'Europe/Berlin' },
    { fieldName: 'stamp', fieldFormat: 'stamp', location: 'Australia/Lord_Howe' },
  ],
})

const key = fc.oneof(fc.constantFrom('t', 'at', 'stamp', 'a', '__proto__', 'constructor', ''), fc.string(), fc.string({ unit: 'binary' }))
const time = fc.oneof(
  fc.integer({ min: 1_000_000_000, max: 1_731_000_000 }),
  fc.double({ noNaN: true, noDefaultInfinity: true }),
  fc.constantFrom('2023-11-14 22:13:20 CET', '2023-10-29 02:30:00 CEST', 'Feb 29 10:00:00', 'Nov  4 01:02:03.5', '1600000000,5', '', 'x'),
)
const { document } = fc.letrec<{ value: JsonValue; document: JsonValue }>(tie => ({
  document: fc.dictionary(key, fc.oneof({ arbitrary: tie('value'), weight: 3 }, { arbitrary: time, weight: 1 }), { maxKeys: 8 }),
  value: fc.oneof(
    { maxDepth: 4 },
    fc.oneof(fc.constant(null), fc.boolean(), fc.double({ noNaN: true, noDefaultInfinity: true }), fc.string(), fc.bigInt()),
    fc.array(tie('value'), { maxLength: 4 }),
    tie('document'),
  ),
}))
const payloadText = fc
  .oneof(document, fc.array(document, { maxLength: 6 }), fc.array(fc.oneof(document, fc.jsonValue() as fc.Arbitrary<JsonValue>)))
  .map(jsonText)

const mutated = fc
  .tuple(
    payloadText,
    fc.array(
      fc.record({
        at: fc.nat(),
        remove: fc.nat(2),
        insert: fc.oneof(
          fc.constantFrom(
            '[',
            ']',
            '{',
            '}',
            ',',
            ':',
            '"',
            '\\',
            '\\u',
            '\\ud800',
            '\\u0000',
            '-',
            '.',
            'e',
            '9e999',
            '1234567890123456',
            ' ',
          ),
          fc.string(),
        ),
      }),
      { minLength: 1, maxLength: 4 },
    ),
  )
  .map(([text, changes]) => {
    let bytes = Buffer.from(text)
    for (const { at, remove, insert } of changes) {
      const place = at % (bytes.length + 1)
      bytes = Buffer.concat([bytes.subarray(0, place), Buffer.from(insert, 'latin1'), bytes.subarray(place + remove)])
    }
    return new Uint8Array(bytes)
  })
const payload = fc.oneof(payloadText.map(utf8), mutated, fc.uint8Array({ maxLength: 200 }))

/** Like a sink's check of a row. */
function isStorable(value: unknown): boolean {
  if (typeof value === 'string') return value.isWellFormed() && !value.includes('\0')
  if (typeof value === 'number') return Number.isFinite(value)
  if (typeof value !== 'object' || value === null) return true
  return Object.entries(value).every(([key, inner]) => isStorable(key) && isStorable(inner))
}

describe(`for every payload (seed ${seed})`, () => {
  test('only DecodeError is thrown, and the batch is unchanged once its rows are dropped', () => {
    const batch = new RecordBatch()
    batch.beginMessage(origin)
    transformer.decode(utf8('[{"before":1},{"before":2}]'), envelope, batch)
    batch.endMessage()
    const before = rowsIn(batch)
    let refused = 0
    fc.assert(
      fc.property(payload, bytes => {
        batch.beginMessage(origin)
        try {
          transformer.decode(bytes, envelope, batch)
          batch.endMessage()
        } catch (error) {
          refused++
          expect(error).toBeInstanceOf(DecodeError)
          expect((error as DecodeError).message.length).toBeLessThan(300)
        }
        batch.dropRows(Outcome.deadLettered)
        expect(rowsIn(batch)).toEqual(before)
        batch.messages.length = 1
      }),
      { seed, numRuns },
    )
    expect(refused).toBeGreaterThan(100)
    expect(refused).toBeLessThan(numRuns - 100)
  })

  test('accepted documents equal those of JSON.parse, and can be stored', () => {
    const open = openJsonDocuments()
    fc.assert(
      fc.property(payload, bytes => {
        const text = new TextDecoder().decode(bytes)
        // JSON.parse itself may misread keys with escapes.
        fc.pre(!text.includes('\\'))
        const rows = outcomeOf(bytes, open)
        if (rows instanceof DecodeError) return
        // A document is stored as text, in which -0 is 0.
        const root: unknown = JSON.parse(text, (_key, value: unknown) => (Object.is(value, -0) ? 0 : value))
        const payloads = rows.map(row => row.payload)
        expect(payloads.every(isStorable)).toBe(true)
        expect(JSON.parse(jsonText(payloads))).toEqual(Array.isArray(root) ? root : [root])
        expect(rows.every(row => row.createdNs === createdNs)).toBe(true)
      }),
      { seed, numRuns },
    )
  })

  test('keys and texts are decoded as written, with any of them escaped', () => {
    const open = openJsonDocuments()
    const plain = fc
      .oneof(fc.constantFrom('\\', '\\u', '\\u00', '"', '\n', 'a', 'ü', '😀'), fc.string({ unit: 'grapheme' }))
      .filter(isStorable)
    const unit = (code: number): string => `\\u${code.toString(16).padStart(4, '0')}`
    const written = fc.tuple(plain, fc.boolean()).map(([text, all]) => ({
      text,
      json: all
        ? `"${text
            .split('')
            .map(one => unit(one.charCodeAt(0)))
            .join('')}"`
        : JSON.stringify(text),
    }))
    fc.assert(
      fc.property(fc.array(fc.tuple(written, written), { maxLength: 5 }), members => {
        const rows = outcomeOf(utf8(`{${members.map(([key, value]) => `${key.json}:${value.json}`).join(',')}}`), open)
        const expected = new Map(members.map(([key, value]) => [key.text, value.text]))
        expect(new Map(Object.entries((rows as ReturnType<typeof rowsIn>)[0]!.payload))).toEqual(expected)
      }),
      { seed, numRuns },
    )
  })

  test('a payload with a long integer is otherwise decoded the same', () => {
    fc.assert(
      fc.property(fc.oneof(payloadText.map(utf8), mutated), bytes => {
        const text = new TextDecoder().decode(bytes)
        fc.pre(!text.includes('\\'))
        const open = openJsonDocuments()
        const plain = outcomeOf(utf8(`{"a":${text}}`), open)
        const exact = outcomeOf(utf8(`{"a":${text},"b":9007199254740993}`), open)
        if (plain instanceof DecodeError || exact instanceof DecodeError) return
        const asDoubles = (value: JsonValue): unknown => JSON.parse(jsonText(value))
        expect(asDoubles(exact[0]!.payload['a']!)).toEqual(asDoubles(plain[0]!.payload['a']!))
      }),
      { seed, numRuns },
    )
  })

  test('a document that JSON.parse accepts and a store can keep is accepted', () => {
    const open = openJsonDocuments()
    fc.assert(
      fc.property(fc.oneof(document, fc.array(document)), value => {
        const rows = outcomeOf(utf8(jsonText(value)), open)
        if (isStorable(value)) expect(rows).not.toBeInstanceOf(DecodeError)
        else expect(rows).toMatchObject({ rule: expect.stringMatching(/^text-(nul|surrogate)$/) as string })
      }),
      { seed, numRuns: 500 },
    )
  })
})

describe(`for every number (seed ${seed})`, () => {
  test('an integer keeps its digits', () => {
    fc.assert(
      fc.property(fc.array(fc.bigInt({ min: -(10n ** 300n), max: 10n ** 300n })), integers => {
        const rows = outcomeOf(utf8(`{"a":[${integers.join(',')}]}`), openJsonDocuments())
        expect((rows as ReturnType<typeof rowsIn>)[0]!.payload['a']).toEqual(
          integers.map(integer => (Number.isSafeInteger(Number(integer)) ? Number(integer) : integer)),
        )
      }),
      { seed, numRuns: 300 },
    )
  })

  test('a unix time is exact to the nanosecond and cut off beyond, as a number and as a text', () => {
    const digits = (minLength: number, maxLength: number) => fc.stringMatching(new RegExp(`^[0-9]{${minLength},${maxLength}}$`))
    fc.assert(
      fc.property(
        fc.constantFrom('', '-'),
        fc.stringMatching(/^(0|[1-9][0-9]{0,19})$/),
        digits(0, 12),
        fc.option(fc.integer({ min: -25, max: 25 })),
        fc.constantFrom<[string, number][]>(['unix', 9], ['unix_ms', 6], ['unix_us', 3], ['unix_ns', 0]),
        (sign, whole, fraction, exponent, [format, unit]) => {
          // In units of 10^-40 ns, as a bigint, without any rounding.
          const shift = unit + (exponent ?? 0) + 40 - fraction.length
          const scaled = BigInt(whole + fraction) * 10n ** BigInt(shift)
          const magnitude = scaled / 10n ** 40n
          const ns = sign === '-' ? -magnitude : magnitude
          const us = ns >= 0n ? ns / 1000n : -((999n - ns) / 1000n)
          const expected = us <= BigInt(Number.MAX_SAFE_INTEGER) && us >= BigInt(Number.MIN_SAFE_INTEGER) ? ns : 'time-range'
          const point = fraction === '' ? '' : `.${fraction}`
          const number = `${sign}${whole}${point}${exponent === null ? '' : `e${exponent}`}`
          expect(timeOf(number, format), number).toBe(expected)
          if (exponent === null) expect(timeOf(`"${number.replace('.', ',')}"`, format), number).toBe(expected)
        },
      ),
      { seed, numRuns: 1000 },
    )
  })

  test('the digits of a time are those of its own field, in any form of the document', () => {
    const decimal = fc.stringMatching(/^1[0-9]{9}\.[0-9]{6,9}$/)
    const value = fc.oneof(
      decimal,
      fc.constantFrom('"t"', '{"t":1.0000000000000001}', '["t",{"t":2}]', '"\\"t\\":3.0000000000000001"', 'null', '{}'),
    )
    const member = fc.tuple(fc.constantFrom('t', '\\u0074', 'u', 't\\n', 'tt', '\\\\'), fc.constantFrom('', ' ', '\n '), value)
    const reader = openJsonDocuments({ timeFields: [{ fieldName: 't', fieldFormat: 'unix' }], bounds: anyTime })
    fc.assert(
      fc.property(fc.array(fc.array(member, { maxLength: 6 }), { minLength: 1, maxLength: 4 }), documents => {
        const texts = documents.map(members => `{${members.map(([name, space, value]) => `"${name}"${space}:${space}${value}`).join(',')}}`)
        const times = documents.map(members => {
          const last = members.findLast(([name]) => name === 't' || name === '\\u0074')?.[2]
          if (last === undefined) return createdNs
          return last.startsWith('1') ? BigInt(last.replace('.', '').padEnd(19, '0')) : undefined
        })
        for (const [payload, expected] of [
          [texts[0]!, times.slice(0, 1)],
          [` [ ${texts.join(' , ')} ]`, times],
        ] as const) {
          const rows = outcomeOf(utf8(payload), reader)
          if (expected.includes(undefined)) expect(rows).toBeInstanceOf(DecodeError)
          else expect((rows as ReturnType<typeof rowsIn>).map(row => row.createdNs)).toEqual(expected)
        }
      }),
      { seed, numRuns },
    )
  })
})
