// Selects what a message is read as, by the options of its writer, its content type and the root of its payload.

import { DecodeError } from './decode-error.ts'
import type { Envelope } from './envelope.ts'
import { excerpt } from './excerpt.ts'
import { type JsonDocumentsOptions, openJsonDocuments } from './json/documents.ts'
import type { TimeField } from './json/times/time-fields.ts'
import { hasObjectRoot, hasSenmlRoot } from './root.ts'
import { openSenmlCbor } from './senml/cbor/cbor.ts'
import { openSenmlJson } from './senml/json.ts'
import type { TimeBounds } from './senml/record.ts'
import type { Transformer } from './transformer.ts'

const json = 'application/json'
/** The supported SenML types (RFC 8428 §12.3.1, §12.3.2). */
const senmlJson = 'application/senml+json'
const senmlCbor = 'application/senml+cbor'
const readTypes: ReadonlySet<string> = new Set([json, senmlJson, senmlCbor])

/** The transformer options of a writer (SPEC §2, writer configuration). */
export interface TransformerOptions {
  readonly format: 'auto' | 'senml' | 'json'
  /** What a message without a content type counts as; unused by `json`. Without it, `auto` goes by the root, and `senml` reads SenML JSON. */
  readonly contentType?: typeof senmlJson | typeof senmlCbor
  /** The media types that this writer takes, `other` for all that no transformer reads; absent: all, and messages without a type. */
  readonly contentTypes?: readonly string[]
  /** The fields with the time of a JSON document. */
  readonly timeFields?: readonly TimeField[]
  /** The format of JSON documents without a subtopic, which are refused without it. */
  readonly defaultFormat?: string
}

/** Returns the media type that a message is read as: one that a transformer reads, or the message's own, which none reads. */
export type ReadAs = (envelope: Pick<Envelope, 'contentType'>, payload: Uint8Array) => string

/**
 * What a writer with these options reads a message as. `json` reads every message as JSON documents; `senml` goes by the content type. So does
 * `auto`, except that an object labelled as SenML JSON is JSON; without a content type it goes by the root.
 */
export function openReadAs({ format, contentType: assumed }: Pick<TransformerOptions, 'format' | 'contentType'>): ReadAs {
  if (format === 'json') return () => json
  if (format === 'senml') return ({ contentType }) => (contentType === '' ? (assumed ?? senmlJson) : contentType)
  return ({ contentType }, payload) => {
    let type: string = contentType
    if (type === '') type = assumed ?? (hasSenmlRoot(payload) ? senmlJson : json)
    return type === senmlJson && hasObjectRoot(payload) ? json : type
  }
}

/**
 * Opens the transformer that a writer is configured for. Options that the format does not use are ignored, because configuration files may contain
 * those of others. Decoding throws DecodeError `unsupported-content-type` for a message that is read as any other type than those of the format.
 *
 * @param limits for the payloads of JSON documents
 * @throws RangeError for a time field with an invalid format or an unknown location
 */
export function openTransformer(
  options: TransformerOptions,
  bounds: Partial<TimeBounds> = {},
  limits: Pick<JsonDocumentsOptions, 'payloadBytesMax'> = {},
): Transformer {
  const { format, timeFields, defaultFormat } = options
  const documents = openJsonDocuments({ timeFields: timeFields ?? [], defaultFormat: defaultFormat ?? '', bounds, ...limits })
  if (format === 'json') return documents
  const readAs = openReadAs(options)
  const transformers = new Map<string, Transformer>([
    [senmlJson, openSenmlJson(bounds)],
    [senmlCbor, openSenmlCbor(bounds)],
  ])
  if (format === 'auto') transformers.set(json, documents)
  return {
    decode(payload, envelope, batch) {
      const type = readAs(envelope, payload)
      const transformer = transformers.get(type)
      if (transformer === undefined) throw unsupported(type, [...transformers.keys()].join(', '))
      transformer.decode(payload, envelope, batch)
    },
  }
}

/** Opens the transformer of a writer's configuration file, with the limits that it sets for messages. */
export function configuredTransformer({
  transformer,
  message,
}: {
  readonly transformer: TransformerOptions
  readonly message: { readonly payloadBytes: number; readonly earliestSeconds: number; readonly aheadDays: number }
}): Transformer {
  const bounds = { timeMinUs: message.earliestSeconds * 1e6, timeAheadMaxUs: message.aheadDays * 86_400e6 }
  const opened = openTransformer(transformer, bounds, { payloadBytesMax: message.payloadBytes })
  const { contentTypes } = transformer
  if (contentTypes === undefined) return opened
  return {
    decode(payload, envelope, batch) {
      if (envelope.contentType === '') throw withoutType
      opened.decode(payload, envelope, batch)
    },
    takes: (_payload, { contentType }) => contentType === '' || contentTypes.includes(readTypes.has(contentType) ? contentType : 'other'),
  }
}

/** Two writers may read such a message differently: it must be stored by one of them, and not by both or by none. */
const withoutType = new DecodeError(
  'unsupported-content-type',
  'the message has no content type, and this writer accepts only some types',
  {
    hint: 'send its content type, or set envelope.content_type, such as const:application/json, and replay the message',
  },
)

function unsupported(type: string, read: string): DecodeError {
  return new DecodeError('unsupported-content-type', `the content type ${excerpt(type)} is not supported; supported: ${read}`, {
    hint: `send one of ${read}, and set the content type accordingly`,
  })
}
