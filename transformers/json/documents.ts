// Decodes JSON documents, `application/json`: one document for the root object, or one for each object of the root array.

import type { Envelope } from '../envelope.ts'
import { type JsonObject, senmlFormat } from '../record-batch.ts'
import { defaultTimeBounds, type TimeBounds, type Transformer } from '../transformer.ts'
import { badElement, badFormatText, badRoot, badTime, noFormat, reservedFormat, timeOutOfRange, tooLong } from './faults.ts'
import { isObject } from './flatten.ts'
import { payloadBytesMaxDefault } from './limits.ts'
import { type ExactNumbers, openExactNumbers } from './number-texts.ts'
import { parsePayload } from './parse.ts'
import { Care, survey } from './survey.ts'
import { openTimeField, type TimeField } from './times/time-fields.ts'
import type { Timestamp } from './times/timestamp.ts'

export interface JsonDocumentsOptions {
  /** The fields with the time of a document; the first one present is used. Without any, it is the time of the message. */
  readonly timeFields?: readonly TimeField[]
  /** Allowed times of documents; by default from 2^28 s to 366 days after the message was received. */
  readonly bounds?: Partial<TimeBounds>
  /** The format of messages with an empty subtopic; '' refuses them. */
  readonly defaultFormat?: string
  /** The largest payload that is decoded; 256 KiB by default. */
  readonly payloadBytesMax?: number
}

/**
 * Opens a transformer of JSON documents (SPEC §2, transformer rules 1 to 6). A payload is all or nothing: one invalid document makes it fail.
 * The format is the last part of the subtopic, or the default one if the subtopic is empty; the content type is ignored.
 *
 * @throws RangeError for a time field with an invalid format or an unknown location
 */
export function openJsonDocuments({
  timeFields = [],
  bounds = {},
  defaultFormat = '',
  payloadBytesMax = payloadBytesMaxDefault,
}: JsonDocumentsOptions = {}): Transformer {
  const { timeMinUs, timeAheadMaxUs } = { ...defaultTimeBounds, ...bounds }
  const minUs = Math.max(timeMinUs, Number.MIN_SAFE_INTEGER)
  const readers = timeFields.map(openTimeField)
  const timestamp: Timestamp = { us: Number.NaN, restNs: 0 }

  /**
   * Writes the document's time to `timestamp`.
   *
   * @param exact the text of numbers that a double may not represent exactly; undefined if there are none
   */
  function takeTime(document: JsonObject, envelope: Envelope, record: number, exact: ExactNumbers | undefined): void {
    for (const reader of readers) {
      const { fieldName } = reader.field
      if (!Object.hasOwn(document, fieldName)) continue
      const value = document[fieldName]
      const text = exact === undefined || typeof value !== 'number' ? undefined : exact(fieldName, record)
      const fault = reader.read(value, text, envelope.createdUs, timestamp)
      if (fault !== undefined) throw badTime(fault, reader.field, value, record)
      return
    }
    timestamp.us = envelope.createdUs
    timestamp.restNs = envelope.createdRestNs
  }

  return {
    decode(payload, envelope, batch) {
      const format = formatOf(envelope.subtopic || defaultFormat)
      if (payload.length > payloadBytesMax) throw tooLong(payload.length, payloadBytesMax)
      const care = survey(payload)
      const root = parsePayload(payload, care)
      const exact = (care & Care.longFractions) === 0 ? undefined : openExactNumbers(payload)
      const documents: readonly unknown[] = Array.isArray(root) ? root : [root]
      const maxUs = Math.min(envelope.createdUs + timeAheadMaxUs, Number.MAX_SAFE_INTEGER)
      for (let index = 0; index < documents.length; index++) {
        const document = documents[index]
        if (!isObject(document)) throw documents === root ? badElement(document, index) : badRoot(root)
        takeTime(document, envelope, index, exact)
        if (!(timestamp.us >= minUs && timestamp.us <= maxUs)) throw timeOutOfRange(timestamp.us, minUs, maxUs, index)
        batch.appendDocument(index, format, timestamp.us, timestamp.restNs, document)
      }
    },
  }
}

/** The last part of a subtopic, which names the table, collection or measurement. */
function formatOf(subtopic: string): string {
  const format = subtopic.slice(subtopic.lastIndexOf('.') + 1)
  if (format === '') throw noFormat(subtopic)
  if (format === senmlFormat) throw reservedFormat()
  if (!format.isWellFormed() || format.includes('\0')) throw badFormatText(subtopic)
  return format
}
