// Picks the transformer of a writer by its options, and that of a message by the content type that its sender gave.

import { DecodeError } from './decode-error.ts'
import { excerpt } from './excerpt.ts'
import { type JsonDocumentsOptions, openJsonDocuments } from './json/documents.ts'
import type { TimeField } from './json/time-fields.ts'
import { openSenmlCbor } from './senml/cbor.ts'
import { openSenmlJson } from './senml/json.ts'
import type { TimeBounds } from './senml/record.ts'
import type { Transformer } from './transformer.ts'

type OpenTransformer = (bounds: Partial<TimeBounds>) => Transformer

/** The SenML types (RFC 8428 §12.3.1, §12.3.2) that are read. */
const senmlTransformers: Readonly<Record<string, OpenTransformer>> = {
  'application/senml+json': openSenmlJson,
  'application/senml+cbor': openSenmlCbor,
}

/** What a writer's configuration says of its transformer (SPEC §2, writer configuration). */
export interface TransformerOptions {
  readonly format: 'auto' | 'senml' | 'json'
  /** How a message is read whose sender gave no content type; `json` needs none. */
  readonly contentType: 'application/senml+json' | 'application/senml+cbor'
  /** For JSON documents: where they hold their time. */
  readonly timeFields: readonly TimeField[]
}

/**
 * Opens the transformer that a writer is configured for: `json` reads every message as JSON documents, whatever its content type; for the
 * others see below. An option that its format has no use for is let be: configuration files hold those of both.
 *
 * @param limits how long the payloads of JSON documents may be
 * @throws RangeError for a time field with a format that is none or a location that is unknown
 */
export function openTransformer(
  { format, contentType, timeFields }: TransformerOptions,
  bounds: Partial<TimeBounds> = {},
  limits: Pick<JsonDocumentsOptions, 'payloadBytesMax'> = {},
): Transformer {
  if (format === 'senml') return openSenmlTransformer(contentType, bounds)
  if (format === 'json') return openJsonDocuments({ timeFields, bounds, ...limits })
  return openAutoTransformer(bounds, { timeFields, ...limits }, contentType)
}

/**
 * Opens the transformer that goes by each message's content type: SenML, or JSON documents.
 *
 * Decoding throws DecodeError `unsupported-content-type` for a type that is not read.
 *
 * @param documents where JSON documents hold their time, and how long their payloads may be
 * @param fallback the type of a message that has none: `application/senml+json`; with '' it is not read
 * @throws RangeError for a time field with a format that is none or a location that is unknown
 */
export function openAutoTransformer(
  bounds: Partial<TimeBounds> = {},
  documents: Omit<JsonDocumentsOptions, 'bounds'> = {},
  fallback = '',
): Transformer {
  const openDocuments: OpenTransformer = bounds => openJsonDocuments({ ...documents, bounds })
  return openSelection({ ...senmlTransformers, 'application/json': openDocuments }, fallback, bounds)
}

/**
 * Opens the transformer for SenML: by the message's content type where it is a SenML one, by `fallback` where it is missing.
 *
 * Decoding throws DecodeError `unsupported-content-type` for every other type.
 *
 * @param fallback a media type: `application/senml+json`
 * @throws RangeError when `fallback` is not a type that is read
 */
export function openSenmlTransformer(fallback = 'application/senml+json', bounds: Partial<TimeBounds> = {}): Transformer {
  if (!Object.hasOwn(senmlTransformers, fallback)) {
    throw new RangeError(`the content type ${excerpt(fallback)} is not read: choose one of ${Object.keys(senmlTransformers).join(', ')}`)
  }
  return openSelection(senmlTransformers, fallback, bounds)
}

function openSelection(table: Readonly<Record<string, OpenTransformer>>, fallback: string, bounds: Partial<TimeBounds>): Transformer {
  const opened = new Map(Object.entries(table).map(([contentType, open]) => [contentType, open(bounds)]))
  const read = [...opened.keys()].join(', ')
  return {
    decode(payload, envelope, batch) {
      const contentType = envelope.contentType === '' ? fallback : envelope.contentType
      const transformer = opened.get(contentType)
      if (transformer === undefined) throw unsupported(contentType, read)
      transformer.decode(payload, envelope, batch)
    },
  }
}

function unsupported(contentType: string, read: string): DecodeError {
  const what = contentType === '' ? 'the message has no content type' : `the content type ${excerpt(contentType)} is not read`
  return new DecodeError('unsupported-content-type', `${what}; read here: ${read}`, {
    hint: `send one of ${read}, and say so in the content type`,
  })
}
