// The options of a writer's transformer (SPEC §2, writer configuration), checked completely: a transformer opens with whatever passes.

import { type Static, Type } from 'typebox'
import type { OptionFault } from '../config/options/options.ts'
import { formatWords, isLocation, isTimeFormat, locationWords } from '../transformers/json/times/time-fields.ts'
import { senmlFormat } from '../transformers/record-batch.ts'

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
    description: 'How messages are read; `auto` goes by their content type, else by the root of the payload.',
  }),
  contentType: Type.Optional(
    Type.Enum(['application/senml+json', 'application/senml+cbor'], {
      examples: ['application/senml+cbor'],
      description: 'Content type of messages that carry none.',
    }),
  ),
  defaultFormat: Type.Optional(
    // A name that InfluxDB stores as it is: its readers find out the format of any other name from the subtopic, which is empty here.
    Type.String({
      pattern: `^(?!${senmlFormat}$)[A-Za-z0-9][A-Za-z0-9_-]{0,99}$`,
      allowed: `up to 100 letters, digits, _ and -, beginning with a letter or digit, but not ${senmlFormat}, which holds SenML`,
      examples: ['events'],
      description: 'Format of JSON documents without a subtopic, otherwise dead letters. Over HTTP they are refused.',
    }),
  ),
  contentTypes: Type.Optional(
    Type.Array(Type.Enum(['application/senml+json', 'application/senml+cbor', 'application/json', 'other']), {
      minItems: 1,
      maxItems: 4,
      examples: [['application/json']],
      description:
        'Media types of this writer, if several share a topic; default: all. With it a message without a content type is a dead letter.',
    }),
  ),
  timeFields: Type.Array(timeField, {
    default: [],
    examples: [[{ fieldName: 'measured_at', fieldFormat: 'unix_ms', location: 'UTC' }]],
    description: 'Where JSON documents hold their time: the first that a document has, else the time of receipt.',
  }),
})
export type TransformerOptions = Static<typeof transformerOptions>

/** Combinations of options with which every message of a type would become a dead letter. */
export function transformerFaults({ format, contentTypes = [] }: Pick<TransformerOptions, 'format' | 'contentTypes'>): OptionFault[] {
  if (format !== 'senml' || !contentTypes.includes('application/json')) return []
  const problem = 'it takes application/json, which the format senml does not read: omit it, or set transformer.format to auto'
  return [{ place: 'transformer.content_types', problem }]
}
