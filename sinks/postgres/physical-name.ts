// The table that a JSON format is stored in, by name: harmless, at most 62 bytes, and no two formats with the same.

import { physicalName as nameBy } from '../format-registry.ts'

/**
 * Lower case only, since people write names unquoted; without `$`, which the names made here have. PostgreSQL cuts names at 63 bytes in
 * silence; one byte is left for the index, which is called `$` and the table.
 */
const rule = { harmless: /^[a-z_][a-z0-9_]{0,61}$/, foreign: /[^a-z0-9_]+/g, separator: '$', prefixLengthMax: 29 }

export function physicalName(format: string): string {
  return nameBy(format, rule)
}
