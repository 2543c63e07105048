// Which form a client is answered in, and whether in gzip.

import { gunzipSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { takesGzip } from '../../../http/requests/accept.ts'
import { coded, formOf, takesType } from '../../../readers/answers/content-negotiation.ts'

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
