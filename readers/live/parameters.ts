// The query string of a live stream: the filters of a page, which mean the same, and nothing that is about pages or about what was stored.

import { type TSchema, Type } from 'typebox'
import { parametersSchema } from '../parameters.ts'

const filters = ['format', 'subtopic', 'publisher', 'protocol', 'name', 'unit', 'v', 'comparator', 'vb', 'vs', 'vd'] as const

export function liveParametersSchema() {
  const page = parametersSchema(1, 0) as unknown as Record<'properties' | 'patternProperties', Record<string, TSchema>>
  return Type.Object(Object.fromEntries(filters.map(name => [name, page.properties[name]!])), {
    additionalProperties: false,
    patternProperties: page.patternProperties,
  })
}
