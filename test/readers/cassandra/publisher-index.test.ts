// When the index of publishers is asked.

import { expect, test } from 'vitest'
import { openPublisherIndex } from '../../../readers/cassandra/pages.ts'
import { sourceOf } from '../../../readers/cassandra/select.ts'

const records = sourceOf('k', 'messages')
const documents = sourceOf('k', 'weather')

test('is used for newest first, for a publisher that nodes surely index', () => {
  const index = openPublisherIndex()
  expect(index.isThere(records, 'p', 'desc')).toBe(true)
  expect(index.isThere(records, '', 'desc')).toBe(true)
  expect(index.isThere(records, 'p', 'asc')).toBe(false)
  expect(index.isThere(records, 'ä'.repeat(512), 'desc')).toBe(true)
  expect(index.isThere(records, 'ä'.repeat(513), 'desc')).toBe(false)
})

test('a table without one is tried again after a minute, and others meanwhile', () => {
  let nowMs = 5
  const index = openPublisherIndex(() => nowMs)
  index.miss(documents)
  expect([records, documents].map(source => index.isThere(source, 'p', 'desc'))).toEqual([true, false])
  nowMs += 59_999
  expect(index.isThere(documents, 'p', 'desc')).toBe(false)
  nowMs++
  expect(index.isThere(documents, 'p', 'desc')).toBe(true)
})
