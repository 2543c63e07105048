// Pages in each form, in one go or slice by slice: the bytes are the same.

import { expect, test } from 'vitest'
import { openCsv } from '../../../readers/answers/csv.ts'
import { type Frame, linesBytes, pageBytes } from '../../../readers/answers/record-json.ts'
import type { Row } from '../../../readers/reader.ts'
import { exportText, rowsText } from '../../../readers/serialize.ts'
import { documentsOf, kib, recordsOf } from '../sized-rows.ts'

const signal = new AbortController().signal
const frame: Frame = { total: { total: 5, isExact: false }, offset: 0, limit: 10, format: 'weather', nextCursor: 'abc' }
const forms = ['json', 'ndjson', 'csv'] as const
const csvOf = (rows: readonly Row[]): string => {
  const csv = openCsv('document', false)
  return csv.header() + csv.rows(rows)
}
const whole = (form: (typeof forms)[number], rows: readonly Row[]): string =>
  form === 'json' ? pageBytes(frame, rows).toString() : form === 'ndjson' ? linesBytes(rows).toString() : csvOf(rows)

test.each(forms)('%s of large rows is the same as when printed at once', async form => {
  for (const rows of [[], documentsOf(3, 10), documentsOf(12, 200 * kib), documentsOf(1, 1024 * kib)]) {
    expect(String(await rowsText(form, frame, rows, false, signal))).toBe(whole(form, rows))
  }
})

test.each(forms)('%s of an export is the same, however its pages are divided', async form => {
  const rows = [...documentsOf(40, 10), ...documentsOf(12, 200 * kib)]
  async function* pages(): AsyncGenerator<readonly Row[]> {
    yield rows.slice(0, 30)
    yield rows.slice(30, 45)
    yield rows.slice(45)
  }
  const source = pages()
  let text = ''
  for await (const piece of exportText(form, frame, await source.next(), source, false, signal)) text += String(piece)
  expect(text).toBe(whole(form, rows))
})

/** Who comes first: what is printed, or who waited for a turn when it began. */
async function firstOf(printed: Promise<unknown>): Promise<string> {
  const other = new Promise<string>(resolve => setImmediate(() => resolve('other')))
  return await Promise.race([printed.then(() => 'printed'), other])
}

test.each(forms)('%s: the event loop runs while large rows are printed, and ordinary ones do not wait', async form => {
  expect(await firstOf(rowsText(form, frame, documentsOf(12, 200 * kib), false, signal))).toBe('other')
  expect(await firstOf(rowsText(form, frame, recordsOf(1000, 10), false, signal))).toBe('printed')
})

test('no page is read if the client disconnected while one was printed', async () => {
  const client = new AbortController()
  let asked = 0
  async function* pages(): AsyncGenerator<readonly Row[]> {
    for (;;) {
      asked++
      yield documentsOf(1, 10)
    }
  }
  const source = pages()
  const printed = exportText('ndjson', frame, await source.next(), source, false, client.signal)
  await printed.next()
  const next = printed.next()
  client.abort(new Error('gone'))
  await expect(next).rejects.toThrow('gone')
  expect(asked).toBe(1)
})

test('nothing more is printed for a client that disconnected', async () => {
  const client = new AbortController()
  const printed = rowsText('json', frame, documentsOf(12, 200 * kib), false, client.signal)
  client.abort(new Error('gone'))
  await expect(printed).rejects.toThrow('gone')
})
