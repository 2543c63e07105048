// The table that a JSON format is stored in, by name: harmless, at most 48 characters, and no two formats with the same.

import { physicalName as nameBy } from '../format-registry.ts'

/**
 * Cassandra takes letters, digits and `_`, at most 48 of them, also in quotes, where case counts. Our own tables are `messages` and those that
 * begin with `sluice_`. The separator is a character that formats have too, so what ends as the names that are made here do is not harmless.
 */
const rule = {
  harmless: /^(?!messages$)(?!sluice_)(?!.*_[0-9a-f]{32}$)[A-Za-z0-9_]{1,48}$/,
  foreign: /[^a-z0-9_]+/g,
  separator: '_',
  prefixLengthMax: 14,
}

export function physicalName(format: string): string {
  return nameBy(format, rule)
}
