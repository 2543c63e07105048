// Pages that were printed lately: many ask for the same page every few seconds, and what has not changed is not printed anew, nor compressed, nor given
// another cursor.
//
// The store is asked all the same, and its rows are compared value by value: that takes a tenth of the time. A page is kept when it has come twice: to
// hold on to the rows of pages that always change would cost more than it saves.

import type { Printed } from './answers.ts'
import type { Answer } from './pages.ts'
import type { Row } from './reader.ts'

type RowsAnswer = Pick<Answer<Row>, 'items' | 'total' | 'hasMore'>

export interface PrintedPages {
  /**
   * @param key everything that the print depends on beside the rows
   * @returns what was printed for the key, where it was of the same rows
   */
  find(key: string, answer: RowsAnswer): Printed | undefined
  /** To be called with what was not found. */
  keep(key: string, answer: RowsAnswer, printed: Printed): void
}

interface Page {
  /** Where it begins and ends: most pages that change do so elsewhere. */
  readonly ends: string
  /** undefined: it has come once. */
  readonly kept: { readonly answer: RowsAnswer; readonly printed: Printed } | undefined
}

/** Of the memory of what was printed: a page of a hundred records has 33 KB. Its rows have a few times as many. */
const printedBytesMax = 128 * 1024
const pagesMax = 64

export function openPrintedPages(): PrintedPages {
  const pages = new Map<string, Page>()
  return {
    find(key, answer) {
      const kept = pages.get(key)?.kept
      return kept !== undefined && isSame(kept.answer, answer) ? kept.printed : undefined
    },
    keep(key, { items, total, hasMore }, printed) {
      const before = pages.get(key)
      // What is asked for last goes last.
      pages.delete(key)
      if (memoryOf(printed) > printedBytesMax) return
      const ends = endsOf(items)
      pages.set(key, { ends, kept: before?.ends === ends ? { answer: { items, total, hasMore }, printed } : undefined })
      if (pages.size > pagesMax) pages.delete(pages.keys().next().value!)
    },
  }
}

function endsOf(rows: readonly Row[]): string {
  return rows.length === 0 ? '' : `${rows[0]!.position}/${rows[0]!.index} ${rows.at(-1)!.position}/${rows.at(-1)!.index} ${rows.length}`
}

/** A buffer may have more room than it shows. */
function memoryOf({ body }: Printed): number {
  return typeof body === 'string' ? 2 * body.length : body.buffer.byteLength
}

function isSame(one: RowsAnswer, other: RowsAnswer): boolean {
  return (
    one.hasMore === other.hasMore &&
    one.total?.total === other.total?.total &&
    one.total?.isExact === other.total?.isExact &&
    one.items.length === other.items.length &&
    one.items.every((row, nth) => isSameRow(row, other.items[nth]!))
  )
}

/** Every member: a row may have been changed by hand, and its place says nothing of that. */
function isSameRow(one: Row, other: Row): boolean {
  if (
    one.position !== other.position ||
    one.index !== other.index ||
    one.channel !== other.channel ||
    one.publisher !== other.publisher ||
    one.subtopic !== other.subtopic ||
    one.protocol !== other.protocol
  )
    return false
  if (one.kind === 'document')
    return other.kind === 'document' && one.createdNs === other.createdNs && one.payloadText === other.payloadText
  return (
    other.kind === 'senml' &&
    one.timeUs === other.timeUs &&
    one.name === other.name &&
    one.unit === other.unit &&
    Object.is(one.value, other.value) &&
    one.stringValue === other.stringValue &&
    one.boolValue === other.boolValue &&
    areSameBytes(one.dataValue, other.dataValue) &&
    Object.is(one.sum, other.sum) &&
    Object.is(one.updateTime, other.updateTime)
  )
}

function areSameBytes(one: Uint8Array | undefined, other: Uint8Array | undefined): boolean {
  if (one === undefined || other === undefined) return one === other
  return Buffer.compare(one, other) === 0
}
