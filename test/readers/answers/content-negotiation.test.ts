// Which form a client is answered in, and whether in gzip.

import { once } from 'node:events'
import { Readable } from 'node:stream'
import { createGunzip, gunzipSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { takesGzip } from '../../../http/requests/accept.ts'
import { coded, codedStream, formOf, takesType } from '../../../readers/answers/content-negotiation.ts'

test.each([
  [undefined, false],
  ['', false],
  ['identity', false],
  ['br', false],
  ['gzip', true],
  ['GZIP', true],
  ['x-gzip', true],
  ['gzip, deflate, br', true],
  ['gzip;q=0', false],
  ['gzip;q=0.001', true],
  ['gzip;q=0.5, identity;q=0.6', false],
  ['gzip;q=0.5, identity;q=0.5', true],
  ['br;q=1, gzip;q=0.2', true],
  ['*', true],
  ['*;q=0', false],
  ['gzip;q=0, *', false],
  ['identity;q=0, *;q=0.5', true],
  ['nonsense;q=', false],
])('%s accepts gzip: %s', (header, takes) => {
  expect(takesGzip(header)).toBe(takes)
})

test.each([1024, 64 * 1024 + 1])('a text of %i characters is decoded unchanged', async length => {
  const text = '°'.repeat(length)
  expect(gunzipSync((await coded(text))!).toString()).toBe(text)
})

test.each([
  [undefined, 'json'],
  ['', 'json'],
  ['*/*', 'json'],
  ['application/json', 'json'],
  ['application/*', 'json'],
  ['text/csv', 'csv'],
  ['text/*', 'csv'],
  ['TEXT/CSV; header=present', 'csv'],
  ['application/x-ndjson', 'ndjson'],
  ['text/csv;q=0.5, application/x-ndjson;q=0.6', 'ndjson'],
  ['text/csv, */*;q=0.1', 'csv'],
  ['application/json;q=0, */*', 'ndjson'],
  ['text/html,application/xhtml+xml,*/*;q=0.8', 'json'],
  ['nonsense', 'json'],
  ['text/csv;q=abc', 'csv'],
  ['text/html', undefined],
  ['application/problem+json', undefined],
  ['*/*;q=0', undefined],
])('Accept: %s is answered as %s', (accept, form) => {
  expect(formOf(accept)).toBe(form)
})

test.each([
  [undefined, true],
  ['', true],
  ['text/event-stream', true],
  ['Text/Event-Stream; charset=utf-8', true],
  ['*/*', true],
  ['text/*;q=0.1', true],
  ['application/json, text/event-stream;q=0.5', true],
  ['application/json', false],
  ['nonsense', false],
  ['text/html, */*;q=0', false],
  ['text/event-stream;q=0, */*', false],
  ['text/event-stream;q=x', true],
  [`${'text/html,'.repeat(20)}text/event-stream`, false],
])('Accept: %s accepts events: %s', (accept, takes) => {
  expect(takesType(accept, 'text/event-stream')).toBe(takes)
})

test('a short text is not compressed', async () => {
  expect(await coded('a'.repeat(1023))).toBeUndefined()
})

test('each piece is sent before the next one is read', async () => {
  const source = new Readable({ read: () => undefined })
  const text = codedStream(source).pipe(createGunzip())
  for (const piece of ['first', 'second']) {
    source.push(piece)
    expect(String(((await once(text, 'data')) as [Buffer])[0])).toBe(piece)
  }
  source.push(null)
  await once(text, 'end')
})

test('if the source fails the stream fails, and if the stream is destroyed the source ends', async () => {
  const failing = new Readable({ read: () => undefined })
  const failed = once(codedStream(failing).resume(), 'end')
  failing.destroy(new Error('the store is away'))
  await expect(failed).rejects.toThrow('the store is away')

  const source = new Readable({ read: () => undefined })
  const stream = codedStream(source)
  const closed = new Promise(resolve => source.on('close', resolve))
  stream.destroy()
  await closed
  expect(source.destroyed).toBe(true)
})
