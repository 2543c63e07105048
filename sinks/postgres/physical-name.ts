// The table that a JSON format is stored in, by name: harmless, at most 62 bytes, and no two formats with the same.

import { createHash } from 'node:crypto'

/** Lower case only, since people write it unquoted; without `$`, which the names made here have. */
const harmless = /^[a-z_][a-z0-9_]{0,61}$/
const prefixLengthMax = 29

/**
 * The format itself where it is harmless, else what is harmless in it, `$`, and 128 bits of its SHA-256: `Temp` becomes
 * `temp$…`. PostgreSQL cuts names at 63 bytes in silence; one byte is left for the index, which is called `$` and the table.
 */
export function physicalName(format: string): string {
  if (harmless.test(format)) return format
  const prefix =
    format
      .toLowerCase()
      .replaceAll(/[^a-z0-9_]+/g, '_')
      .slice(0, prefixLengthMax) || 'format'
  return `${prefix}$${createHash('sha256').update(format, 'utf8').digest('hex').slice(0, 32)}`
}
