// The rows of a message that a store should have: those that it decodes to, without those that were erased.

import { addDigests, digestOf, textsOf } from '../../sinks/contents.ts'
import type { ErasedTimes } from '../../sinks/erasure.ts'
import type { RecordBatch } from '../../transformers/record-batch.ts'

export interface ExpectedRows {
  /** How many it decodes to. */
  readonly rows: number
  /** How many of them must be there: others may be erased. */
  readonly least: number
  /** How many of them may be there: others must be erased. */
  readonly most: number
  /** @param least of those that must be there, instead of all */
  readonly digest: (least: boolean) => number
}

/**
 * Of the last message of a batch.
 *
 * @param record the first record and document of the message
 */
export function expectedRows(batch: RecordBatch, record: number, document: number, erased: ErasedTimes | undefined): ExpectedRows {
  const { records, documents } = batch
  const rows = records.length - record + documents.length - document
  const digestOfRows = (isCounted: (timeUs: number) => boolean): number => {
    let digest = 0
    let nth = 0
    for (const text of textsOf(batch, record, document)) if (isCounted(timeOf(nth++))) digest = addDigests(digest, digestOf(text))
    return digest
  }

  /** By the order of the texts: records, then documents. */
  function timeOf(nth: number): number {
    const at = record + nth
    return at < records.length ? records.timeUs[at]! : documents.createdUs[document + at - records.length]!
  }

  function rowsFrom(us: number): number {
    let count = 0
    for (let nth = 0; nth < rows; nth++) if (timeOf(nth) >= us) count++
    return count
  }

  if (erased === undefined) return { rows, least: rows, most: rows, digest: () => digestOfRows(() => true) }
  return {
    rows,
    least: rowsFrom(erased.missingBelowUs),
    most: rowsFrom(erased.goneBelowUs),
    digest: least => digestOfRows(timeUs => !least || timeUs >= erased.missingBelowUs),
  }
}
