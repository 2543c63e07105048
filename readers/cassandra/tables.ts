// Which formats have a table.
//
// The driver keeps each text that it was ever given to prepare, also of a table that there is none of, and whoever asks names formats as they
// like. So the table of a format is asked for once without preparing, and prepared statements are of tables that have been found.

import { isSchemaFault } from '../../sinks/cassandra/errors.ts'
import type { Selection } from '../query.ts'
import type { Ask } from './asking.ts'
import { lastDayOfAll } from './key-range.ts'
import { selectAnything, selectDayBefore } from './select.ts'
import type { Source } from './source.ts'

const knownMax = 10_000

export interface Tables {
  /** @throws the store's error where it has none of the sink's tables */
  has(ask: Ask, source: Source, selection: Selection): Promise<boolean>
  /** It has turned out to be gone. */
  forget(source: Source): void
}

export function openTables(keyspace: string): Tables {
  const known = new Set<string>()
  return {
    async has(ask, source, selection) {
      if (source.kind === 'senml' || known.has(source.table)) return true
      try {
        await ask(selectAnything(source, selection.channel), { rows: 1 })
      } catch (error) {
        if (!isSchemaFault(error)) throw error
        // Fails where it is the whole schema that is missing.
        await ask(selectDayBefore(keyspace, selection, lastDayOfAll), { rows: 1 })
        return false
      }
      if (known.size >= knownMax) known.clear()
      known.add(source.table)
      return true
    },
    forget: ({ table }) => void known.delete(table),
  }
}
