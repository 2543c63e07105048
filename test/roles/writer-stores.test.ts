// The kinds of stores that a writer can write to and a reader can read, by their names.

import { expect, test } from 'vitest'
import { SystemicError } from '../../pipeline/systemic-error.ts'
import { type Reader, StoreUnavailableError } from '../../readers/reader.ts'
import { loadReaderOptions } from '../../roles/reader-options.ts'
import { storeKind } from '../../roles/stores/index.ts'
import { type StoreName, storeNameList } from '../../roles/stores/store.ts'
import { closingBehind } from '../../roles/stores/store-reader.ts'
import { loadWriterOptions } from '../../roles/writer-options.ts'

const environment = {
  SVC_RELATIONAL_URL: 'postgres://sluice:x7kq2m3p4d@127.0.0.1:1/sluice',
  SVC_WIDECOLUMN_URL: 'cassandra://127.0.0.1:1/sluice?dc=datacenter1',
  SVC_TIMESERIES_URL: 'http://127.0.0.1:1/?org=acme&bucket=sluice',
  SVC_TIMESERIES_TOKEN: 'x7kq2m3p4d',
  SVC_DOCUMENT_URL: 'mongodb://127.0.0.1:1/sluice',
  SVC_STORE_CONNECT_TIMEOUT_MS: '200',
}

test.each(storeNameList)('a store of the kind %s is opened by its name, and connects when it is first used', async name => {
  const kind = await storeKind(name)
  expect(kind.name).toBe(name)
  const { store: options } = loadWriterOptions(kind, { environment, otherVariables: Object.keys(environment) })
  const store = await kind.open(options, 'writer-1')
  await store.close()
  const audit = await kind.openAudit(options)
  await audit.close()
})

test.each(storeNameList)('a store of the kind %s is read by its name, and connects when it is first asked', async name => {
  const kind = await storeKind(name)
  const { store: options } = loadReaderOptions(kind, { environment, otherVariables: Object.keys(environment) })
  const reader = await kind.openReader(options)
  // Nobody listens there: who is asked says so, and nobody was asked before.
  await expect(reader.check()).rejects.toBeInstanceOf(StoreUnavailableError)
  await reader.close()
})

test('a name that is of no store opens none', async () => {
  const opening = storeKind('widecolumns' as StoreName)
  await expect(opening).rejects.toThrow(SystemicError)
  await expect(opening).rejects.toThrow('there is no store "widecolumns"')
})

test('a reader is closed before the connection that it stands on', async () => {
  const closed: string[] = []
  const reader = { close: async () => void closed.push('reader') } as Reader
  await closingBehind(reader, { close: async () => void closed.push('connection') }).close()
  expect(closed).toEqual(['reader', 'connection'])
})
