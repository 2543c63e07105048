// A reader that holds its rows in memory and answers by the plainest code there is: what others are compared with over HTTP.

import type { Reader } from '../../readers/reader.ts'
import { bucketsOf, formatsOf, latestOf, pageOf, type StoredRow, selected } from '../conformance/reader/oracle.ts'

export function openOracleReader(stored: readonly StoredRow[]): Reader {
  return {
    read: async query => pageOf(selected(stored, query), query),
    count: async (filter, max) => Math.min(selected(stored, filter).length, max + 1),
    async latest(query) {
      const newest = latestOf(selected(stored, query))
      return { groups: pageOf(newest, query), total: newest.length }
    },
    async aggregate(query) {
      const buckets = bucketsOf(selected(stored, query), query)
      return { groups: buckets.slice(query.offset, query.offset + query.limit), total: buckets.length }
    },
    formats: async query => formatsOf(stored, query),
    check: async () => undefined,
    close: async () => undefined,
  }
}
