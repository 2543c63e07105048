// The contract of every reader (readers/reader.ts): rows of every kind are stored by the store's own sink, read back, and compared with the
// stored rows and with the expected bytes of the answer.

import { afterAll, beforeAll, test } from 'vitest'
import type { Row } from '../../../readers/reader.ts'
import { RecordBatch } from '../../../transformers/record-batch.ts'
import { aggregateQuery, formatsQuery, pageQuery, type ReaderBench, type ReaderSite, signal } from './bench.ts'
import { channelsSuite } from './channels.ts'
import { filtersSuite } from './filters.ts'
import { channel, documents, everyRow, type KeptOf, records } from './fixture.ts'
import { groupsSuite } from './groups.ts'
import { hostileSuite } from './hostile.ts'
import { filterOf, type StoredRow } from './oracle.ts'
import { pagesSuite } from './pages.ts'
import { rowsSuite } from './rows.ts'
import { sameMillisecondSuite } from './same-millisecond.ts'

export { aggregateQuery, formatsQuery, pageQuery, type ReaderSite } from './bench.ts'

/** @param open opens a reader on an empty store */
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
  })
  afterAll(() => site.close())

  const bench: ReaderBench = {
    get site() {
      return site
    },
    get stored() {
      return stored
    },
    read: async query => (await site.reader.read(pageQuery(query), signal)).map(withBuffer),
    count: (filter, max = 10_000) => site.reader.count({ ...filterOf({ channel }), ...filter }, max, signal),
    latest: query => site.reader.latest(pageQuery(query), signal),
    aggregate: query => site.reader.aggregate(aggregateQuery(query), signal),
    formats: query => site.reader.formats(formatsQuery(query), signal),
  }

  test('the check of the store passes', () => site.reader.check())
  rowsSuite(bench)
  pagesSuite(bench)
  filtersSuite(bench)
  groupsSuite(bench)
  channelsSuite(bench)
  sameMillisecondSuite(bench)
  hostileSuite(bench)
}

/** Some drivers return bytes as a Buffer and others as a Uint8Array; rows are compared as a whole. */
function withBuffer(row: Row): Row {
  return row.kind === 'senml' && row.dataValue !== undefined ? { ...row, dataValue: Buffer.from(row.dataValue) } : row
}
