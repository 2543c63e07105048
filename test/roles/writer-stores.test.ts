// The stores that a writer can write to, by their names.

import { expect, test } from 'vitest'
import { SystemicError } from '../../pipeline/systemic-error.ts'
import { openStore } from '../../roles/stores.ts'
import type { StoreName } from '../../roles/writer-options.ts'
import { loadWriterOptions } from '../../roles/writer-options.ts'

const { store: options } = loadWriterOptions({ environment: { SVC_RELATIONAL_URL: 'postgres://sluice:x7kq2m3p4d@db:5432/sluice' } })

test('a store is opened by its name, and connects when it is first used', async () => {
  const store = await openStore('relational', options, 'relational')
  await store.close()
})

test('a name that is of no store opens none', async () => {
  const opening = openStore('widecolumns' as StoreName, options, 'relational')
  await expect(opening).rejects.toThrow(SystemicError)
  await expect(opening).rejects.toThrow('there is no store "widecolumns"')
})
