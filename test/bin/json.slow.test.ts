// `sluice json transform`, `flatten` and `unflatten`, each as a process.

import { describe, test } from 'vitest'
import { faultOf, outputOf, sluice } from './command.ts'

const created = ['--created', '1700000000123456789']

async function transform(payload: string, ...words: string[]): Promise<string[]> {
  const text = (await outputOf(['json', 'transform', ...created, ...words], payload)).toString()
  return text.split('\n').slice(0, -1)
}

describe.concurrent('sluice json transform', () => {
  test('prints each message on a line: its format, its time in nanoseconds, its payload', async ({ expect }) => {
    expect(await transform('[{"temperature":21.5},{"d":{"a/b":null}}]', '--subtopic', 'bedroom.climate')).toEqual([
      '{"format":"climate","created":1700000000123456789,"payload":{"temperature":21.5}}',
      '{"format":"climate","created":1700000000123456789,"payload":{"d":{"a/b":null}}}',
    ])
  })

  test('integers keep all digits, and __proto__ is a key', async ({ expect }) => {
    const payload = '{"id":8659456789564231564,"__proto__":{"deep":[-9007199254740993]},"text":"ü\\n"}'
    expect(await transform(payload, '--subtopic', 'x')).toEqual([`{"format":"x","created":1700000000123456789,"payload":${payload}}`])
  })

  test('the first time field in the document gives the time, to the nanosecond', async ({ expect }) => {
    const words = ['--time-field', 'at,unix', '--time-field', 'time,2006-01-02 15:04,Europe/Berlin', '--subtopic', 'x']
    const payload = '[{"time":"2024-07-01 12:00","at":1600000000.123456789},{"time":"2024-07-01 12:00"},{"a":1}]'
    expect((await transform(payload, ...words)).map(line => /"created":(\d+)/.exec(line)![1])).toEqual([
      '1600000000123456789',
      '1719828000000000000',
      '1700000000123456789',
    ])
  })

  test('a time field with commas is given as a JSON object', async ({ expect }) => {
    const field = '{"field_name":"a,b","field_format":"Jan 2, 2006","location":"Asia/Tokyo"}'
    expect(await transform('{"a,b":"Mar 4, 2024"}', '--subtopic', 'x', '--time-field', field)).toEqual([
      '{"format":"x","created":1709478000000000000,"payload":{"a,b":"Mar 4, 2024"}}',
    ])
  })

  test('without --created the time is now', async ({ expect }) => {
    const line = JSON.parse((await outputOf(['json', 'transform', '--subtopic', 'x'], '{}')).toString()) as { created: number }
    expect(Math.abs(line.created / 1e6 - Date.now())).toBeLessThan(60_000)
  })

  test('an empty array gives no message', async ({ expect }) => {
    expect(await transform('[]', '--subtopic', 'x')).toEqual([])
  })

  test('a payload of many documents is printed completely', async ({ expect }) => {
    const lines = await transform(`[${Array(8000).fill('{}').join(',')}]`, '--subtopic', 'x')
    expect(lines).toHaveLength(8000)
    expect(lines.at(-1)).toBe('{"format":"x","created":1700000000123456789,"payload":{}}')
  })

  test('a refused payload is reported with its record, rule and what to do', async ({ expect }) => {
    const words = ['json', 'transform', '--subtopic', 'x', '--time-field', 'at,unix']
    expect(await faultOf(words, '[{"at":1700000000},{"at":null}]')).toMatch(/^record 1: the time field "at" .* \(rule time-type\): /)
    expect(await faultOf(words, '{"a":')).toMatch(/^the payload is not JSON: .* \(rule json-syntax\): /)
    expect(await faultOf(['json', 'transform', '--subtopic', ''], '{}')).toMatch(/^the subtopic is empty.* \(rule format-empty\): /)
  })

  test('a mistake on the command line is reported', async ({ expect }) => {
    const field = async (text: string) =>
      await faultOf(['json', 'transform', '--subtopic', 'x', '--time-field', 'ok,unix', '--time-field', text], '{}')
    expect(await field('at')).toMatch(/^time field 1: "at" is not name,format\[,location\]/)
    expect(await field('at,a,b,c')).toMatch(/give a JSON object with field_name, field_format, location$/)
    expect(await field('at,unix_minutes')).toMatch(/^time field 1: the field_format "unix_minutes" .*rfc3339/)
    expect(await field('at,rfc850,Mars')).toMatch(/^time field 1: the location "Mars" .* is unknown/)
    expect(await field('{"field_name":"at"')).toMatch(/^time field 1: .* is not a JSON object/)
    expect(await field('{"field_name":"at","format":"unix"}')).toMatch(/^time field 1: the key "format" is unknown/)
  })

  test.each([
    [['--created', '1.5', '--subtopic', 'x'], 'Give Unix nanoseconds'],
    [[], "required option '--subtopic <dotted>' not specified"],
  ])('%j is reported', async (words, expected) => {
    const { code, output, errors } = await sluice(['json', 'transform', ...words], '{}')
    if (code !== 1 || output.length > 0 || !errors.includes(expected)) throw new Error(`${code}: ${errors}`)
  })
})

describe.concurrent('sluice json flatten and unflatten', () => {
  test('flatten prints the fields of a document', async ({ expect }) => {
    const document = '{"d":{"tmp":21.5,"id":8659456789564231564,"none":null},"list":[1,8659456789564231564],"e":{}, "__proto__":{"x":"y"}}'
    expect((await outputOf(['json', 'flatten'], document)).toString()).toBe(
      '{"d/tmp":21.5,"d/id":8659456789564232000,"list":"[1,8659456789564231564]","__proto__/x":"y"}\n',
    )
    expect((await outputOf(['json', 'flatten'], '{"a":null}')).toString()).toBe('{}\n')
  })

  test('unflatten prints the nested document', async ({ expect }) => {
    const fields = '{"d/tmp":21.5,"state":"on","d/e/open":false,"none":null,"__proto__/x":12345678901234567890}'
    expect((await outputOf(['json', 'unflatten'], fields)).toString()).toBe(
      '{"d":{"tmp":21.5,"e":{"open":false}},"state":"on","__proto__":{"x":12345678901234567000}}\n',
    )
  })

  test('refused input is reported', async ({ expect }) => {
    expect(await faultOf(['json', 'flatten'], '{"d":{"a/b":1}}')).toBe(
      'the key "a/b" in "d" contains / (rule flatten-key): the time-series store joins nested keys by /: rename the key',
    )
    expect(await faultOf(['json', 'flatten'], '[{"a":1}]')).toMatch(/^the document must be an object, not an array \(rule flatten-root\)/)
    expect(await faultOf(['json', 'unflatten'], '{"a":1,"a/b":2}')).toMatch(
      /^the key "a" is both a value and the parent of other keys \(rule unflatten-conflict\)/,
    )
    expect(await faultOf(['json', 'unflatten'], '{"a":[1]}')).toMatch(/^the field "a" is an array/)
    expect(await faultOf(['json', 'unflatten'], '"text"')).toMatch(/^the input must be an object of fields/)
    expect(await faultOf(['json', 'flatten'], '{"a":1}}')).toMatch(/\(rule json-syntax\)/)
  })
})
