// The kinds of stores for writers and readers, by name.

import { expect, test } from 'vitest'
import { SystemicError } from '../../../pipeline/systemic-error.ts'
import { type Reader, StoreUnavailableError } from '../../../readers/reader.ts'
import { loadReaderOptions } from '../../../roles/reader/options.ts'
import { storeKind } from '../../../roles/stores/index.ts'
import { storeOptions } from '../../../roles/stores/options.ts'
import { closingBehind, type StoreName, storeNameList } from '../../../roles/stores/store.ts'
import { loadWriterOptions } from '../../../roles/writer/options.ts'

const environment = {
  SVC_RELATIONAL_URL: 'postgres://sluice:x7kq2m3p4d@127.0.0.1:1/sluice',
  SVC_WIDECOLUMN_URL: 'cassandra://127.0.0.1:1/sluice?dc=datacenter1',
  SVC_TIMESERIES_URL: 'http://127.0.0.1:1/?org=acme&bucket=sluice',
  SVC_TIMESERIES_TOKEN: 'x7kq2m3p4d',
  SVC_DOCUMENT_URL: 'mongodb://127.0.0.1:1/sluice',
  SVC_STORE_CONNECT_TIMEOUT_MS: '200',
}

test.each(storeNameList)('a %s store is opened by its name, and connects on first use', async name => {
  const kind = await storeKind(name)
  expect(kind.name).toBe(name)
  const { store: options } = loadWriterOptions(await storeOptions(name), { environment, otherVariables: Object.keys(environment) })
  const store = await kind.open(options, 'writer-1')
  await store.close()
  const audit = await kind.openAudit(options)
  await audit.close()
})

test.each(storeNameList)('a %s store is read by its name, and connects on first use', async name => {
  const kind = await storeKind(name)
  const { store: options } = loadReaderOptions(await storeOptions(name), { environment, otherVariables: Object.keys(environment) })
  const reader = await kind.openReader(options)
  // Nothing listens there, so the first request fails; none was sent before.
  await expect(reader.check()).rejects.toBeInstanceOf(StoreUnavailableError)
  await reader.close()
})

test('an unknown name opens nothing', async () => {
  const opening = storeKind('widecolumns' as StoreName)
  await expect(opening).rejects.toThrow(SystemicError)
  await expect(opening).rejects.toThrow('unknown store "widecolumns"')
})

test('a reader is closed before its connection', async () => {
  const closed: string[] = []
  const reader = { close: async () => void closed.push('reader') } as Reader
  await closingBehind(reader, { close: async () => void closed.push('connection') }).close()
  expect(closed).toEqual(['reader', 'connection'])
})
