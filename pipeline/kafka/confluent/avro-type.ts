// Makes the type of a schema out of texts that are at hand: by avsc, as @kafkajs/confluent-schema-registry has it, and without a request.

import { createRequire } from 'node:module'
import type { AvroType } from './avro-shape.ts'

interface Avsc {
  readonly Type: { forSchema(schema: unknown, options: { registry: object }): AvroType }
}

let loaded: Avsc | undefined

/** The one that the library brings along, so that both read a schema in the same way. Loaded when it is first needed. */
export function loadAvsc(): Avsc {
  const require = createRequire(import.meta.url)
  loaded ??= createRequire(require.resolve('@kafkajs/confluent-schema-registry'))('avsc') as Avsc
  return loaded
}

/**
 * The type of a schema.
 *
 * @param texts the schema last, and before it those it refers to, each behind what it refers to itself
 * @throws Error where they are no schemas of Avro: hand its message on, for the texts are a producer's
 */
export function avroTypeOf({ Type }: Avsc, texts: readonly string[]): AvroType {
  // Without a prototype: a schema may name a type `constructor`.
  const options = { registry: Object.create(null) as object }
  let type: AvroType | undefined
  for (const text of texts) type = Type.forSchema(parseWithoutDefaults(text), options)
  if (type === undefined) throw new Error('there is no schema')
  return type
}

/** Defaults are for readers that lack a field, and avsc fills in each anew: of records nested by name that is 2^n for n lines of a schema. */
function parseWithoutDefaults(text: string): unknown {
  return JSON.parse(text, (key, value: unknown) => (key === 'default' ? undefined : value))
}
