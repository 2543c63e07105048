// Properties of every payload. The tests' names contain the seed of a run; SEED=<seed> repeats it.

import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { DecodeError } from '../../../transformers/decode-error.ts'
import { Outcome, RecordBatch } from '../../../transformers/record-batch.ts'
import { envelope, origin, outcomeOf, type Row, rowsIn, senmlJson } from './rows.ts'

const seed = Number(process.env['SEED'] ?? Date.now() % 2 ** 31)
const numRuns = 600

const number = fc.oneof(
  fc.integer({ min: -100, max: 100 }),
  fc.double({ noNaN: true, noDefaultInfinity: true }),
  fc.integer({ min: -(10 ** 6), max: 10 ** 6 }).map(tenths => tenths / 10),
)
const time = fc.oneof(fc.integer({ min: -3, max: 3 }), fc.double({ min: 1_600_000_000, max: 1_700_000_000, noNaN: true }), number)
const text = fc.oneof(fc.constantFrom('V', 'Cel', '%RH', 'km/h', 'kWh', 'dBm', '', '°C'), fc.string(), fc.string({ unit: 'binary' }))
const name = fc.oneof(fc.stringMatching(/^[A-Za-z0-9][A-Za-z0-9\-:./_]{0,20}$/), fc.constantFrom('', ':a', '-', 'a b'), fc.string())
const data = fc.oneof(
  fc.uint8Array({ maxLength: 20 }).map(bytes => Buffer.from(bytes).toString('base64url')),
  fc.string(),
)

/** Mostly valid records: random labels with values of their types, rarely others. */
const record = fc
  .record(
    {
      bn: name,
      bt: time,
      bu: text,
      bv: number,
      bs: number,
      bver: fc.constantFrom(10, 26, 5, 11),
      n: name,
      u: text,
      v: fc.oneof({ arbitrary: number, weight: 9 }, { arbitrary: fc.jsonValue(), weight: 1 }),
      vs: text,
      vb: fc.boolean(),
      vd: data,
      s: number,
      t: time,
      ut: number,
      x: fc.jsonValue(),
      must_: fc.constant(1),
    },
    { requiredKeys: [] },
  )
  .map(fields => Object.fromEntries(Object.entries(fields).filter(([label], at) => at < 5 && (label !== 'must_' || at === 0))))

/** A valid record with few possible faults. */
const goodRecord = fc
  .record(
    {
      bn: fc.stringMatching(/^[a-z0-9][a-z:./_-]{0,20}$/),
      bt: fc.integer({ min: 1_690_000_000, max: 1_700_000_000 }),
      bu: fc.constantFrom('V', '', 'km/h', 'kWh'),
      bv: number,
      bs: number,
      n: fc.stringMatching(/^[A-Za-z0-9]{1,20}$/),
      u: fc.constantFrom('V', '', 'km/h', 'kWh', '°C'),
      t: fc.double({ min: -1000, max: 1000, noNaN: true }),
      ut: number,
      s: number,
    },
    { requiredKeys: ['n'] },
  )
  .chain(fields =>
    fc
      .oneof(
        number.map(v => ({ v })),
        fc.string({ unit: fc.constantFrom('a', 'Z', ' ', '"', '\\', 'ü', '😀', '\n') }).map(vs => ({ vs })),
        fc.boolean().map(vb => ({ vb })),
        fc.uint8Array({ maxLength: 20 }).map(bytes => ({ vd: Buffer.from(bytes).toString('base64url') })),
      )
      .map(value => ({ ...fields, ...value })),
  )

const goodPack = fc.array(goodRecord, { minLength: 1, maxLength: 40 })
const packText = fc
  .tuple(fc.array(record, { maxLength: 12 }), fc.constantFrom(undefined, 1, '\t'))
  .map(([records, space]) => JSON.stringify(records, undefined, space))

function utf8(text: string): Uint8Array {
  return new TextEncoder().encode(text)
}

/** A pack with a few bytes changed, removed or inserted. */
const mutatedPack = fc
  .tuple(
    fc.oneof(
      packText,
      goodPack.map(pack => JSON.stringify(pack)),
    ),
    fc.array(
      fc.record({
        at: fc.nat(),
        remove: fc.nat(2),
        insert: fc.oneof(
          fc.constantFrom('[', ']', '{', '}', ',', ':', '"', '\\', '-', '+', '.', 'e', '0', '1', '9', ' ', 't', '\u0000'),
          fc.string(),
        ),
      }),
      {
        minLength: 1,
        maxLength: 4,
      },
    ),
  )
  .map(([text, changes]) => {
    let mutated = Buffer.from(utf8(text))
    for (const { at, remove, insert } of changes) {
      const place = at % (mutated.length + 1)
      mutated = Buffer.concat([mutated.subarray(0, place), Buffer.from(insert, 'latin1'), mutated.subarray(place + remove)])
    }
    return new Uint8Array(mutated)
  })

const payload = fc.oneof(
  packText.map(utf8),
  mutatedPack,
  goodPack.map(pack => utf8(JSON.stringify(pack))),
  fc.uint8Array({ maxLength: 200 }),
)

/** The resolved pack with the same content as `rows`: full names, absolute times, no base fields. */
function packOf(rows: readonly Row[]): string {
  return JSON.stringify(
    rows.map(row => ({
      n: row.name,
      u: row.unit,
      t: row.timeUs / 1e6,
      v: row.value,
      vs: row.string,
      vb: row.boolean,
      vd: row.data === undefined ? undefined : Buffer.from(row.data, 'hex').toString('base64url'),
      s: row.sum,
      ut: row.updateTime,
    })),
  )
}

describe(`for every payload (seed ${seed})`, () => {
  test('only DecodeError is thrown, and the batch is unchanged once its rows are dropped', () => {
    const batch = new RecordBatch()
    batch.beginMessage(origin)
    senmlJson.decode(utf8('[{"n":"before","u":"V","v":1},{"n":"before","vs":"x"}]'), envelope, batch)
    batch.endMessage()
    const before = rowsIn(batch)
    fc.assert(
      fc.property(payload, bytes => {
        batch.beginMessage(origin)
        try {
          senmlJson.decode(bytes, envelope, batch)
          batch.endMessage()
        } catch (error) {
          expect(error).toBeInstanceOf(DecodeError)
        }
        batch.dropRows(Outcome.deadLettered)
        expect(rowsIn(batch)).toEqual(before)
        batch.messages.length = 1
      }),
      { seed, numRuns },
    )
  })

  test('the fast and the slow decoder give the same rows, or the same fault', () => {
    let rows = 0
    fc.assert(
      fc.property(payload, bytes => {
        const short = outcomeOf(bytes)
        const long = outcomeOf(Buffer.concat([Uint8Array.of(0xef, 0xbb, 0xbf), bytes]))
        if (short instanceof DecodeError) expect(long).toMatchObject({ rule: short.rule, record: short.record })
        else expect(short).toEqual(long)
        if (!(short instanceof DecodeError)) rows += short.length
      }),
      { seed, numRuns },
    )
    expect(rows, 'packs that are right are among them').toBeGreaterThan(100)
  })

  test('the payload is not changed', () => {
    fc.assert(
      fc.property(payload, bytes => {
        const before = Uint8Array.from(bytes)
        outcomeOf(bytes)
        expect(bytes).toEqual(before)
      }),
      { seed, numRuns: 300 },
    )
  })
})

describe(`for every valid pack (seed ${seed})`, () => {
  test('its rows are in the order of time, and those with the same time as received', () => {
    fc.assert(
      fc.property(goodPack, pack => {
        const rows = outcomeOf(utf8(JSON.stringify(pack)))
        fc.pre(!(rows instanceof DecodeError))
        expect(rows).toHaveLength(pack.length)
        for (let at = 1; at < rows.length; at++) {
          const [earlier, later] = [rows[at - 1]!, rows[at]!]
          expect(earlier.timeUs < later.timeUs || (earlier.timeUs === later.timeUs && earlier.index < later.index)).toBe(true)
        }
      }),
      { seed, numRuns: 500 },
    )
  })

  test('a resolved pack resolves to itself', () => {
    fc.assert(
      fc.property(goodPack, fc.constantFrom(10, 26), (pack, bver) => {
        const rows = outcomeOf(utf8(JSON.stringify([{ bver }, ...pack])))
        fc.pre(!(rows instanceof DecodeError))
        expect(outcomeOf(utf8(packOf(rows)))).toEqual(rows.map((row, index) => ({ ...row, index })))
      }),
      { seed, numRuns: 500 },
    )
  })
})
