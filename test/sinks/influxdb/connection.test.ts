// The rows of answers, however their CSV is cut into pieces.

import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { answerOf, cell, type Row, typeOf } from '../../../sinks/influxdb/connection.ts'
import { classify } from '../../../sinks/influxdb/errors.ts'

async function* pieces(text: string, size: number): AsyncGenerator<Uint8Array> {
  const bytes = Buffer.from(text)
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size)
}

async function rowsOf(text: string, size: number): Promise<Row[]> {
  const rows: Row[] = []
  for await (const page of answerOf(pieces(text, size))) rows.push(...page)
  return rows
}

const answer = [
  '#datatype,string,long,string,long',
  ',result,table,_value,"a,b"',
  ',_result,0,"one ""two"", ü",1',
  ',_result,0,"line',
  'end",9151314442816847873',
  '',
  '#datatype,string,long,double',
  ',result,table,_value',
  ',_result,1,0.5',
  ',_result,1,',
  '',
  '',
].join('\r\n')

test('tables with different columns, quotes and line ends, in pieces of any size', async () => {
  for (const size of [1, 2, 3, 7, 1000]) {
    const rows = await rowsOf(answer, size)
    expect(rows.map(row => [cell(row, '_value'), cell(row, 'a,b'), typeOf(row, '_value')])).toEqual([
      ['one "two", ü', '1', 'string'],
      ['line\r\nend', '9151314442816847873', 'string'],
      ['0.5', undefined, 'double'],
      ['', undefined, 'double'],
    ])
  }
})

test('any cells are decoded', async () => {
  const cells = fc.array(fc.string({ unit: fc.constantFrom('"', ',', '\r\n', 'a', 'ü', '😀', ' ') }), { minLength: 2, maxLength: 5 })
  await fc.assert(
    fc.asyncProperty(fc.array(cells, { maxLength: 5 }), fc.integer({ min: 1, max: 9 }), async (rows, size) => {
      const line = (some: readonly string[]): string => `,${some.map(text => `"${text.replaceAll('"', '""')}"`).join(',')}\r\n`
      const text = `#datatype,string,string\r\n,a,b\r\n${rows.map(line).join('')}\r\n`
      expect((await rowsOf(text, size)).map(row => row.values)).toEqual(rows)
    }),
  )
})

test('an error in the middle of an answer is thrown, and is transient', async () => {
  const failing = `${answer}#datatype,string,string\r\n,error,reference\r\n,out of memory,\r\n\r\n`
  const error = await rowsOf(failing, 50).catch((error: unknown) => error)
  expect([classify(error), (error as Error).message]).toEqual(['transient', expect.stringMatching(/aborted a query: out of memory/)])
})
