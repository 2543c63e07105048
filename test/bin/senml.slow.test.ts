// `sluice senml resolve` and `validate`, each as a process.

import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { faultOf, outputOf, sluice } from './command.ts'

const examples = new URL('../transformers/senml/fixtures/', import.meta.url)
const now = ['--now', '1700000000']

async function resolve(pack: string | Uint8Array, ...words: string[]): Promise<unknown> {
  return JSON.parse((await outputOf(['senml', 'resolve', ...words], pack)).toString())
}

describe.concurrent('sluice senml resolve', () => {
  test('prints resolved records: full names, absolute times, chronological, one on each line', async ({ expect }) => {
    const pack = '[{"bn":"room:","bt":1600000000,"bu":"Cel","n":"a","v":21.5},{"n":"b","t":-1.25,"vs":"x"},{"n":"c","bt":0,"vb":true}]'
    expect((await outputOf(['senml', 'resolve', ...now], pack)).toString()).toBe(
      '[\n' +
        '  {"n":"room:b","u":"Cel","vs":"x","t":1599999998.75},\n' +
        '  {"n":"room:a","u":"Cel","v":21.5,"t":1600000000},\n' +
        '  {"n":"room:c","u":"Cel","vb":true,"t":1700000000}\n' +
        ']\n',
    )
  })

  test('prints every kind of value, sum and update time, and converts secondary units', async ({ expect }) => {
    const pack =
      '[{"bver":26,"n":"a","u":"km/h","v":36,"s":0},{"n":"b","vd":"_-8"},{"n":"c","vs":"\\"ü\\n","ut":0},{"n":"d","vb":false},{"n":"e","s":-1.5}]'
    expect(await resolve(pack, ...now)).toEqual([
      { n: 'a', u: 'm/s', v: 10, s: 0, t: 1_700_000_000 },
      { n: 'b', vd: '_-8', t: 1_700_000_000 },
      { n: 'c', vs: '"ü\n', t: 1_700_000_000, ut: 0 },
      { n: 'd', vb: false, t: 1_700_000_000 },
      { n: 'e', s: -1.5, t: 1_700_000_000 },
    ])
  })

  test('times are exact to the microsecond, and none has more decimals', async ({ expect }) => {
    const pack = '[{"n":"a","v":1,"t":1600000000.000001},{"n":"b","v":1,"t":1600000000.1234567},{"n":"c","v":1,"t":8500000000.000001}]'
    expect((await outputOf(['senml', 'resolve', ...now], pack)).toString().match(/"t":[\d.]+/g)).toEqual([
      '"t":1600000000.000001',
      '"t":1600000000.123457',
      '"t":8500000000.000001',
    ])
  })

  test('a resolved pack resolves to itself', async ({ expect }) => {
    const pack = '[{"bn":"m:","bt":1600000000.000001,"bver":5,"n":"a","v":0.1},{"n":"b","t":0.3,"s":1e300},{"n":"c","t":-9,"vd":"AQ"}]'
    const once = await outputOf(['senml', 'resolve', ...now], pack)
    expect(await outputOf(['senml', 'resolve'], once)).toEqual(once)
  })

  test('a version other than 10 is in every record', async ({ expect }) => {
    expect(await resolve('[{"bver":5,"n":"a","v":1},{"n":"b","v":2}]', ...now)).toEqual([
      { bver: 5, n: 'a', v: 1, t: 1_700_000_000 },
      { bver: 5, n: 'b', v: 2, t: 1_700_000_000 },
    ])
    expect(await resolve('[{"bver":10,"n":"a","v":1}]', ...now)).toEqual([{ n: 'a', v: 1, t: 1_700_000_000 }])
  })

  test('relative times count from --now, to the microsecond, and by default from the present', async ({ expect }) => {
    expect(await resolve('[{"n":"a","v":1,"t":-0.5}]', '--now', '1700000000.250001')).toEqual([{ n: 'a', v: 1, t: 1_699_999_999.750001 }])
    const [{ t }] = (await resolve('[{"n":"a","v":1}]')) as [{ t: number }]
    expect(Math.abs(t - Date.now() / 1000)).toBeLessThan(60)
  })

  test.each(['5.1.3-multiple-measurements', '5.1.6-collection-of-resources'])(
    'the example %s of RFC 8428, of 2010, resolves',
    async folder => {
      const read = (file: string): string => readFileSync(new URL(`rfc8428-${folder}/${file}`, examples), 'utf8')
      const expected = JSON.parse(read('expected.json')) as { name: string; timeUs: number }[]
      const records = (await resolve(read('input.json'), ...now)) as { n: string; t: number }[]
      expect(records.map(({ n, t }) => [n, Math.round(t * 1e6)])).toEqual(expected.map(({ name, timeUs }) => [name, timeUs]))
    },
  )

  test('a pack without values is an empty array', async ({ expect }) => {
    expect((await outputOf(['senml', 'resolve'], '[{"bn":"m:"}]')).toString()).toBe('[]\n')
  })

  test('reads CBOR by its first byte, and hexadecimal text with --hex', async ({ expect }) => {
    const expected = [{ n: 'a', v: 10, t: 1_700_000_000 }]
    expect(await resolve(Buffer.from('81a2006161020a', 'hex'), ...now)).toEqual(expected)
    expect(await resolve('81 A2 00 61\n61 02 0a\n', '--hex', ...now)).toEqual(expected)
  })

  test('a time may be years ahead, but not before 2^28 s, because it could not be written as absolute', async ({ expect }) => {
    expect(await resolve('[{"n":"a","v":1,"t":4000000000}]', '--now', '1000000000')).toEqual([{ n: 'a', v: 1, t: 4_000_000_000 }])
    expect(await faultOf(['senml', 'resolve', '--now', '1000'], '[{"n":"a","v":1}]')).toMatch(
      /^record 0: its time, 1000 s since 1970, .*rule time-range/,
    )
  })

  test('a large pack is printed completely', async ({ expect }) => {
    const pack = JSON.stringify(Array.from({ length: 50_000 }, (_, at) => ({ n: `sensor-${at}`, v: at })))
    const records = (await resolve(pack, ...now)) as unknown[]
    expect(records).toHaveLength(50_000)
    expect(records.at(-1)).toEqual({ n: 'sensor-49999', v: 49_999, t: 1_700_000_000 })
  })
})

describe.concurrent('sluice senml validate', () => {
  test('prints the number of resolved records', async ({ expect }) => {
    expect((await outputOf(['senml', 'validate'], '[{"bn":"m:"},{"n":"a","v":1},{"n":"b","v":2}]')).toString()).toBe('ok, 2 records\n')
    expect((await outputOf(['senml', 'validate'], '[{"bn":"m:"}]')).toString()).toBe('ok, 0 records\n')
    expect((await outputOf(['senml', 'validate', '--hex'], '81a2006161020a')).toString()).toBe('ok, 1 records\n')
  })

  test('reports the record, the rule and what to do', async ({ expect }) => {
    expect(await faultOf(['senml', 'validate'], '[{"n":"a","v":1},{"n":"b","v":1,"vs":"x"}]')).toBe(
      'record 1: both v and vs; a record has exactly one value (rule one-value): send one record per value',
    )
    expect(await faultOf(['senml', 'validate'], '{"n":"a","v":1}')).toMatch(/send an array; for free-form JSON use the json transformer$/)
  })

  test('refuses like a writer: a time more than 366 days ahead', async ({ expect }) => {
    const pack = (daysAhead: number) => `[{"n":"a","v":1,"t":${1_700_000_000 + daysAhead * 86_400}}]`
    expect((await outputOf(['senml', 'validate', ...now], pack(366))).toString()).toBe('ok, 1 records\n')
    expect(await faultOf(['senml', 'validate', ...now], pack(367))).toMatch(/^record 0: .*after the latest allowed.*rule time-range/)
  })
})

describe.concurrent('a mistake on the command line is reported', () => {
  test.each([
    [['resolve', '--now', 'today'], 'Give Unix seconds'],
    [['resolve', '--now', '-5'], 'Give Unix seconds'],
    [['resolve', '--now', '9999999999'], 'Give a time before the year 2255'],
    [['resolve', 'one', 'two'], 'Expected 1 argument but got 2'],
    [['resolv'], 'Did you mean resolve?'],
  ])('%j', async (words, expected) => {
    const { code, output, errors } = await sluice(['senml', ...words])
    expect([code, output.length]).toEqual([1, 0])
    expect(errors).toContain(expected)
  })

  test('--hex with an odd number of digits, and with other characters', async ({ expect }) => {
    expect(await faultOf(['senml', 'resolve', '--hex'], '81a')).toBe('the input has 3 hexadecimal digits: give two for each byte')
    expect(await faultOf(['senml', 'resolve', '--hex'], '81g0')).toMatch(/^"g" is not a hexadecimal digit/)
  })
})

describe.concurrent('hexadecimal text', () => {
  test('may begin with a byte-order mark, as some shells write it', async ({ expect }) => {
    expect((await outputOf(['senml', 'validate', '--hex'], '\uFEFF81a2006161020a\r\n')).toString()).toBe('ok, 1 records\n')
  })

  test('without --hex is recognised, and the error names the option', async ({ expect }) => {
    expect(await faultOf(['senml', 'validate'], '81a2 006161020a\n')).toBe('the pack looks like CBOR in hexadecimal: add --hex')
  })
})
