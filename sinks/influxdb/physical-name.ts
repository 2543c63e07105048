// The measurement of a JSON format.

import { physicalName as nameOf } from '../format-registry.ts'

/**
 * Without a character that line protocol, Flux or InfluxQL reads otherwise, and without `$`, which stands only in names that are made
 * here. A leading `_` is InfluxDB's own; `messages` holds SenML.
 */
const rule = { harmless: /^(?!messages$)[A-Za-z0-9][A-Za-z0-9_-]{0,99}$/, foreign: /[^a-z0-9_]+/g, separator: '$', prefixLengthMax: 40 }

export function physicalName(format: string): string {
  return nameOf(format, rule)
}
