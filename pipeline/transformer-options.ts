// The options of a writer's transformer (SPEC §2, writer configuration), checked to the last: what loads opens.

import { type Static, Type } from 'typebox'
import { formatWords, isLocation, isTimeFormat, locationWords } from '../transformers/json/time-fields.ts'

const timeField = Type.Object({
  fieldName: Type.String({ minLength: 1, description: 'A key at the top level of a document.' }),
  fieldFormat: Type.Refine(Type.String({ allowed: formatWords, description: 'How the time is written there.' }), isTimeFormat),
  location: Type.Refine(
    Type.String({
      default: 'UTC',
      allowed: locationWords,
      description: 'The time zone of a text that has none. Unix times need none.',
    }),
    isLocation,
  ),
})

export const transformerOptions = Type.Object({
  format: Type.Enum(['auto', 'senml', 'json'], {
    default: 'auto',
    description: 'How messages are read: as `senml`; as `json`, whatever their content type; with `auto` as their content type says.',
  }),
  contentType: Type.Enum(['application/senml+json', 'application/senml+cbor'], {
    default: 'application/senml+json',
    description: 'How a message without a content type is read, unless the format is `json`.',
  }),
  timeFields: Type.Array(timeField, {
    default: [],
    examples: [[{ fieldName: 'measured_at', fieldFormat: 'unix_ms', location: 'UTC' }]],
    description:
      'Where JSON documents hold their time. Of several, the first that a document has counts; with none, its time is when it was received.',
  }),
})
export type TransformerOptions = Static<typeof transformerOptions>
