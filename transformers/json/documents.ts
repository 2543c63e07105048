// JSON documents, `application/json`: from bytes to one document for the root object, or for each object of the root array.

import type { Envelope } from '../envelope.ts'
import { type JsonObject, senmlFormat } from '../record-batch.ts'
import { defaultTimeBounds, type TimeBounds } from '../time-bounds.ts'
import type { Transformer } from '../transformer.ts'
import { badElement, badFormatText, badRoot, badTime, noFormat, reservedFormat, timeOutOfRange, tooLong } from './faults.ts'
import type { Instant } from './instant.ts'
import { payloadBytesMaxDefault } from './limits.ts'
import { type ExactNumbers, openExactNumbers } from './number-texts.ts'
import { parsePayload } from './parse.ts'
import { Care, survey } from './survey.ts'
import { openTimeField, type TimeField } from './time-fields.ts'

export interface JsonDocumentsOptions {
  /** Where documents hold their time: of those that are there, the first counts. Without, it is the time of the message. */
  readonly timeFields?: readonly TimeField[]
  /** Which instants documents may have; by default from 2^28 s to 366 days after the message was received. */
  readonly bounds?: Partial<TimeBounds>
  /** The longest payload that is read; 256 KiB by default. */
  readonly payloadBytesMax?: number
}

/**
 * Opens a transformer of JSON documents (SPEC §2, transformer rules 1 to 6). A payload is all or nothing: one bad document refuses it.
 * The format is the last part of the subtopic; the content type is not asked for.
 *
 * @throws RangeError for a time field with a format that is none or a location that is unknown
 */
export function openJsonDocuments({
  timeFields = [],
  bounds = {},
  payloadBytesMax = payloadBytesMaxDefault,
}: JsonDocumentsOptions = {}): Transformer {
  const { timeMinUs, timeAheadMaxUs } = { ...defaultTimeBounds, ...bounds }
  const minUs = Math.max(timeMinUs, Number.MIN_SAFE_INTEGER)
  const readers = timeFields.map(openTimeField)
  const instant: Instant = { us: Number.NaN, restNs: 0 }

  /**
   * Leaves the document's time in `instant`.
   *
   * @param exact how numbers were written that a double may not hold; undefined where there are none
   */
  function takeTime(document: JsonObject, envelope: Envelope, record: number, exact: ExactNumbers | undefined): void {
    for (const reader of readers) {
      const { fieldName } = reader.field
      if (!Object.hasOwn(document, fieldName)) continue
      const value = document[fieldName]
      const text = exact === undefined || typeof value !== 'number' ? undefined : exact(fieldName, record)
      const fault = reader.read(value, text, envelope.createdUs, instant)
      if (fault !== undefined) throw badTime(fault, reader.field, value, record)
      return
    }
    instant.us = envelope.createdUs
    instant.restNs = envelope.createdRestNs
  }

  return {
    decode(payload, envelope, batch) {
      const format = formatOf(envelope.subtopic)
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
        if (!(instant.us >= minUs && instant.us <= maxUs)) throw timeOutOfRange(instant.us, minUs, maxUs, index)
        batch.appendDocument(index, format, instant.us, instant.restNs, document)
      }
    },
  }
}

function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** The last part of a subtopic, which names the table, collection or measurement. */
function formatOf(subtopic: string): string {
  const format = subtopic.slice(subtopic.lastIndexOf('.') + 1)
  if (format === '') throw noFormat(subtopic)
  if (format === senmlFormat) throw reservedFormat()
  if (!format.isWellFormed() || format.includes('\0')) throw badFormatText(subtopic)
  return format
}
