// The MongoDB reader on FerretDB, and on the server that MONGODB_URL names: what every reader promises.

import { describe } from 'vitest'
import { readerConformance } from '../../conformance/reader/index.ts'
import { describeWithMongo } from '../../servers/mongo.ts'
import { openSite } from './site.ts'

describeWithMongo('FerretDB', mongo => {
  readerConformance(() => openSite(`${mongo.url}conformance`))
})

const real = process.env['MONGODB_URL']
if (real !== undefined) {
  describe('the server of MONGODB_URL', () => {
    const url = new URL(real)
    url.pathname = '/sluice_reader_conformance'
    readerConformance(() => openSite(url.href))
  })
}
