// Flattens decoded documents, for stores that only accept flat ones (SPEC §2, transformer rule 8).

import { DecodeError } from './decode-error.ts'
import { type Fields, flatten } from './json/flatten.ts'
import type { JsonObject, RecordBatch } from './record-batch.ts'
import type { Transformer } from './transformer.ts'

/**
 * Wraps a transformer so that documents are flattened: each becomes an object of joined keys with numbers, strings and booleans. A document
 * without any fields is dropped; a message without any documents is empty. SenML records are not changed.
 * Decoding also throws the errors of `flatten`, with the ordinal of the document.
 */
export function flattening(transformer: Transformer): Transformer {
  return {
    ...transformer,
    decode(payload, envelope, batch) {
      const from = batch.documents.length
      transformer.decode(payload, envelope, batch)
      flattenFrom(batch, from)
    },
  }
}

/** Flattens the documents of a batch from this index on, and closes the gaps of dropped ones. */
export function flattenFrom({ documents }: RecordBatch, from: number): void {
  let to = from
  for (let at = from; at < documents.length; at++) {
    const fields = fieldsOf(documents.payload[at]!, documents.index[at]!)
    if (fields.keys.length === 0) continue
    documents.payload[to] = flatObject(fields)
    documents.format[to] = documents.format[at]!
    documents.message[to] = documents.message[at]!
    documents.index[to] = documents.index[at]!
    documents.createdUs[to] = documents.createdUs[at]!
    documents.createdRestNs[to] = documents.createdRestNs[at]!
    to++
  }
  documents.length = to
}

function fieldsOf(document: JsonObject, record: number): Fields {
  try {
    return flatten(document)
  } catch (error) {
    if (!(error instanceof DecodeError)) throw error
    throw new DecodeError(error.rule, error.message, { record, hint: error.hint, cause: error.cause })
  }
}

/** Without a prototype, so that `__proto__` is an ordinary key. */
export function flatObject({ keys, values }: Fields): JsonObject {
  const flat = Object.create(null) as Record<string, Fields['values'][number]>
  for (let at = 0; at < keys.length; at++) flat[keys[at]!] = values[at]!
  return flat
}
