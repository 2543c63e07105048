// Which form an Accept header asks for.

import { expect, test } from 'vitest'
import { formOf } from '../../readers/media-type.ts'

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
])('%s is %s', (accept, form) => {
  expect(formOf(accept)).toBe(form)
})
