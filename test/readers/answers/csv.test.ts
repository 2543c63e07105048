// CSV, line by line (RFC 4180).

import { readFileSync } from 'node:fs'
import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { pageAnswer, recordSchema } from '../../../readers/answers/answer-schema.ts'
import { openCsv } from '../../../readers/answers/csv.ts'
import type { DocumentRow } from '../../../readers/reader.ts'
import { bare, type FullRecord, origin } from './page-text.ts'

const record = { ...bare, timeUs: 1_600_000_000_250_000 }
const document: DocumentRow = { kind: 'document', ...origin, createdNs: 1_600_000_000_000_000_001n, payloadText: '{"b": 1, "a": "x,y"}' }
const lines = (text: string): string[] => text.split('\r\n')

test('records have a header and a cell for each column', () => {
  const csv = openCsv('senml', false)
  expect(csv.header()).toBe('Channel,Subtopic,Publisher,Protocol,Name,Unit,Time,UpdateTime,Value,StringValue,BoolValue,DataValue,Sum\r\n')
  const full: FullRecord = {
    ...record,
    unit: 'Cel',
    updateTime: 0,
    value: -0.5,
    stringValue: 'x',
    boolValue: false,
    dataValue: Buffer.from('hi'),
    sum: 0,
  }
  expect(csv.rows([record, full])).toBe('c,,p,http,n,,1600000000.25,,,,,,\r\nc,,p,http,n,Cel,1600000000.25,0,-0.5,x,false,aGk,0\r\n')
})

test('the description and its example, and the page about HTTP, have the keys of a record in the order of the columns', () => {
  const header = openCsv('senml', false).header()
  const keys = header.trim().split(',')
  expect(Object.keys(recordSchema.properties).filter(key => /^[A-Z]/.test(key))).toEqual(keys)
  const [first, second] = lines(pageAnswer.content['text/csv'].example)
  expect([first, second!.split(',').length]).toEqual([header.trim(), keys.length])
  const page = readFileSync(new URL('../../../docs/reference/http.md', import.meta.url), 'utf8')
  expect(page).toContain(`\`${keys.join(' ')}\``)
})

test('the header has the requested keys', () => {
  expect(openCsv('senml', false, 'lower').header()).toBe(
    'channel,subtopic,publisher,protocol,name,unit,time,update_time,value,string_value,bool_value,data_value,sum\r\n',
  )
  expect(openCsv('document', false, 'lower').header()).toBe('channel,subtopic,publisher,protocol,created,payload\r\n')
  expect(openCsv('document', false, 'both').header()).toBe(openCsv('document', false).header())
})

test('an empty text and empty data are distinguished from missing ones', () => {
  const csv = openCsv('senml', false)
  expect(csv.rows([{ ...record, stringValue: '' }])).toBe('c,,p,http,n,,1600000000.25,,,"",,,\r\n')
  expect(csv.rows([{ ...record, dataValue: Buffer.alloc(0) }])).toBe('c,,p,http,n,,1600000000.25,,,,,"",\r\n')
})

test.each([
  ['a,b', '"a,b"'],
  ['a"b', '"a""b"'],
  ['a\nb', '"a\nb"'],
  ['a\rb', '"a\rb"'],
  [' a', '" a"'],
  ['=1+1', '=1+1'],
])('a text is quoted if necessary: %j', (text, cell) => {
  expect(openCsv('senml', false).rows([{ ...record, name: text }])).toBe(`c,,p,http,${cell},,1600000000.25,,,,,,\r\n`)
})

test.each([
  ['=1+1', "'=1+1"],
  ['+1', "'+1"],
  ['-1', "'-1"],
  ['@x', "'@x"],
  ['=a"b', `"'=a""b"`],
  ['\t1', `"'\t1"`],
  ['\r1', `"'\r1"`],
  ['\n1', `"'\n1"`],
  [' =1', `" '=1"`],
  ['\u00a0\t+1', `"\u00a0\t'+1"`],
  ['＝1', "'＝1"],
  ['＋1', "'＋1"],
  ['－1', "'－1"],
  [' ＠x', `" '＠x"`],
  // Where another character than a comma separates cells, quotes within a cell mean nothing.
  ['x;=1+1', `"x;'=1+1"`],
  ['x;y;@a;', `"x;y;'@a;"`],
  ['x\t=1', `"x\t'=1"`],
  ['x|+1', `"x|'+1"`],
  ['x -1', "x '-1"],
  ['x\r\n=1;', `"x\r\n'=1;"`],
  ['x;" =1"', `"x;"" '=1"""`],
  ['x;\u3000＝1', `"x;\u3000'＝1"`],
  ['a=b-c@d+e', 'a=b-c@d+e'],
  ['{"a":-1,"b":[1,-2]}', '"{""a"":-1,""b"":[1,-2]}"'],
])('a text that a spreadsheet would read as a formula is escaped with csv_safe: %j', (text, cell) => {
  const line = openCsv('senml', true).rows([{ ...record, name: text, value: -1 }])
  expect(line).toBe(`c,,p,http,${cell},,1600000000.25,,-1,,,,\r\n`)
})

test('with csv_safe no cell starts a formula, whatever separates cells, and with commas only apostrophes are added', () => {
  const part = fc.constantFrom('=', '+', '-', '@', '＝', ';', '\t', '|', ' ', ',', '"', "'", '\r', '\n', '\u00a0', 'x', '1')
  const text = fc.array(part, { maxLength: 12 }).map(parts => parts.join(''))
  fc.assert(
    fc.property(text, text, (name, stringValue) => {
      const line = openCsv('senml', true).rows([{ ...record, name, stringValue }])
      for (const separator of [';', '\t', '|', ' ']) {
        for (const cell of line.split(/[\r\n]/).flatMap(one => one.split(separator))) expect(cell).not.toMatch(/^[\s"]*[=+\-@＝]/)
      }
      const cells = cellsOf(line)
      expect(cells).toHaveLength(13)
      for (const [at, sent] of [
        [4, name],
        [9, stringValue],
      ] as const)
        expect(cells[at]!.replaceAll("'", '')).toBe(sent.replaceAll("'", ''))
    }),
    { numRuns: 300 },
  )
})

/** The cells of a line by RFC 4180. */
function cellsOf(line: string): string[] {
  return [...line.slice(0, -2).matchAll(/(?:^|,)(?:"((?:[^"]|"")*)"|([^,"]*))/g)].map(
    ([, quoted, plain]) => quoted?.replaceAll('""', '"') ?? plain!,
  )
}

test('documents have their payload as JSON text', () => {
  const csv = openCsv('document', false)
  expect(csv.header() + csv.rows([document])).toBe(
    'Channel,Subtopic,Publisher,Protocol,Created,Payload\r\nc,,p,http,1600000000000000001,"{""a"":""x,y"",""b"":1}"\r\n',
  )
})

test('buckets', () => {
  const csv = openCsv('bucket', false)
  const bucket = {
    channel: 'c',
    publisher: 'p',
    subtopic: 's',
    name: 'n',
    unit: undefined,
    timeUs: 1_600_000_000_000_000,
    value: 1.5,
    count: 2,
  }
  expect(csv.header() + csv.buckets([bucket])).toBe(
    'Channel,Publisher,Subtopic,Name,Unit,Time,Value,Count\r\nc,p,s,n,,1600000000,1.5,2\r\n',
  )
  expect(csv.buckets([{ ...bucket, value: Number.POSITIVE_INFINITY }])).toBe('c,p,s,n,,1600000000,,2\r\n')
})
