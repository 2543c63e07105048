// What every reader promises (readers/reader.ts), run against each of them: rows of every kind are stored by the store's own
// sink, read back, and compared as rows with what the rows themselves say, and as the bytes of the answer.

import { afterAll, beforeAll, test } from 'vitest'
import type { Row } from '../../../readers/reader.ts'
import { RecordBatch } from '../../../transformers/record-batch.ts'
import { aggregateQuery, formatsQuery, pageQuery, type ReaderBench, type ReaderSite, signal } from './bench.ts'
import { filtersSuite } from './filters.ts'
import { channel, documents, everyRow, type KeptOf, records } from './fixture.ts'
import { groupsSuite } from './groups.ts'
import { hostileSuite } from './hostile.ts'
import { type StoredRow, selectionOf } from './oracle.ts'
import { pagesSuite } from './pages.ts'
import { rowsSuite } from './rows.ts'

export { aggregateQuery, formatsQuery, pageQuery, type ReaderSite } from './bench.ts'

/** @param open a reader over an empty store */
export function readerConformance(open: () => Promise<ReaderSite>): void {
  let site: ReaderSite
  let stored: readonly StoredRow[]

  beforeAll(async () => {
    site = await open()
    const keptOf: KeptOf | undefined = site.keptOf === undefined ? undefined : payload => site.keptOf!(payload)
    stored = everyRow(keptOf)
    const batch = new RecordBatch()
    records.appendTo(batch)
    documents.appendTo(batch, keptOf)
    await site.store(batch)
  }, 120_000)
  afterAll(() => site.close())

  const bench: ReaderBench = {
    get site() {
      return site
    },
    get stored() {
      return stored
    },
    read: async query => (await site.reader.read(pageQuery(query), signal)).map(withBuffer),
    count: (selection, max = 10_000) => site.reader.count({ ...selectionOf({ channel }), ...selection }, max, signal),
    latest: query => site.reader.latest(pageQuery(query), signal),
    aggregate: query => site.reader.aggregate(aggregateQuery(query), signal),
    formats: query => site.reader.formats(formatsQuery(query), signal),
  }

  test('the store answers that it can be read', () => site.reader.check())
  rowsSuite(bench)
  pagesSuite(bench)
  filtersSuite(bench)
  groupsSuite(bench)
  hostileSuite(bench)
}

/** Bytes come as a Buffer from some drivers and as a plain Uint8Array from others; rows are compared as a whole. */
function withBuffer(row: Row): Row {
  return row.kind === 'senml' && row.dataValue !== undefined ? { ...row, dataValue: Buffer.from(row.dataValue) } : row
}
