// What every reader promises, of the Cassandra reader over stores of several kinds.

import { describe } from 'vitest'
import { readerConformance } from '../../conformance/reader/index.ts'
import { describeWithCassandra } from '../../servers/cassandra.ts'
import { openSite } from './site.ts'

describeWithCassandra('the Cassandra reader', cassandra => {
  describe('over partitions of a day', () => {
    readerConformance(() => openSite(cassandra.contactPoint))
  })

  describe('over partitions of a hundred days, page by small page', () => {
    const settings = { sink: { bucketDays: 100 }, limits: { pageRowsMax: 2, keyRowsMax: 3 } }
    readerConformance(() => openSite(cassandra.contactPoint, settings))
  })
})
