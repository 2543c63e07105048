// The kinds of stores that a writer can write to, each in a file of its own and loaded only where it is asked for.

import { SystemicError } from '../../pipeline/systemic-error.ts'
import type { StoreKind, StoreName } from './store.ts'

/** @throws SystemicError for a name that is none */
export async function storeKind(name: StoreName): Promise<StoreKind> {
  switch (name) {
    case 'relational':
      return (await import('./relational.ts')).relational
    case 'widecolumn':
      return (await import('./widecolumn.ts')).widecolumn
    case 'timeseries':
      return (await import('./timeseries.ts')).timeseries
    case 'document':
      return (await import('./document.ts')).document
    default:
      // The compiler asks for a case of each name; plain JavaScript and a thread's data may hold another.
      throw new SystemicError(`there is no store ${JSON.stringify(name satisfies never)}: a worker was told to open what no writer can`)
  }
}
