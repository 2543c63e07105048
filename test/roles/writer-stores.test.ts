// The kinds of stores that a writer can write to, by their names.

import { expect, test } from 'vitest'
import { SystemicError } from '../../pipeline/systemic-error.ts'
import { storeKind } from '../../roles/stores/index.ts'
import { type StoreName, storeNameList } from '../../roles/stores/store.ts'
import { loadWriterOptions } from '../../roles/writer-options.ts'

const environment = {
  SVC_RELATIONAL_URL: 'postgres://sluice:x7kq2m3p4d@127.0.0.1:1/sluice',
  SVC_WIDECOLUMN_URL: 'cassandra://127.0.0.1:1/sluice?dc=datacenter1',
  SVC_TIMESERIES_URL: 'http://127.0.0.1:1/?org=acme&bucket=sluice',
  SVC_TIMESERIES_TOKEN: 'x7kq2m3p4d',
  SVC_DOCUMENT_URL: 'mongodb://127.0.0.1:1/sluice',
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

test('a name that is of no store opens none', async () => {
  const opening = storeKind('widecolumns' as StoreName)
  await expect(opening).rejects.toThrow(SystemicError)
  await expect(opening).rejects.toThrow('there is no store "widecolumns"')
})
