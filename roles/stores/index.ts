// The kinds of stores, loaded when they are used.

import { SystemicError } from '../../pipeline/systemic-error.ts'
import type { StoreKind, StoreName } from './store.ts'

/** @throws SystemicError for an unknown name */
export async function storeKind(name: StoreName): Promise<StoreKind> {
  switch (name) {
    case 'relational':
      return (await import('./relational.ts')).relational
    case 'widecolumn':
      return (await import('./keyed.ts')).widecolumn
    case 'timeseries':
      return (await import('./keyed.ts')).timeseries
    case 'document':
      return (await import('./keyed.ts')).document
    default:
      // The compiler checks that every name has a case; data passed to a thread could still contain another.
      throw new SystemicError(`unknown store ${JSON.stringify(name satisfies never)} in the settings of a worker`)
  }
}
