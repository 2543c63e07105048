// The collection that a JSON format is stored in, by name: harmless, at most 120 characters, and no two formats with the same.

import { physicalName as nameBy } from '../format-registry.ts'

/**
 * Without a dot, which our own collections have and those of the server (`system.…`); MongoDB's names are case-sensitive. A database's name and a
 * collection's have 255 bytes together. `~` stands in no harmless name.
 */
const rule = {
  harmless: /^(?!messages$)[A-Za-z0-9_-]{1,120}$/,
  foreign: /[^a-z0-9_-]+/g,
  separator: '~',
  prefixLengthMax: 60,
}

export function physicalName(format: string): string {
  return nameBy(format, rule)
}
