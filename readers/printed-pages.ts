// Pages that were printed lately: many ask for the same page every few seconds, and what has not changed is not printed anew, nor compressed, nor given
// another cursor.
//
// The store is asked all the same, and its rows are compared value by value: that takes a tenth of the time.

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
  keep(key: string, answer: RowsAnswer, printed: Printed): void
}

/** Of the memory of what was printed: a page of a hundred records has 33 KB. Its rows have a few times as many. */
const printedBytesMax = 128 * 1024
const pagesMax = 64

export function openPrintedPages(): PrintedPages {
  const pages = new Map<string, { readonly answer: RowsAnswer; readonly printed: Printed }>()
  return {
    find(key, answer) {
      const page = pages.get(key)
      return page !== undefined && isSame(page.answer, answer) ? page.printed : undefined
    },
    keep(key, { items, total, hasMore }, printed) {
      // What is asked for last goes last.
      pages.delete(key)
      if (memoryOf(printed) > printedBytesMax) return
      pages.set(key, { answer: { items, total, hasMore }, printed })
      if (pages.size > pagesMax) pages.delete(pages.keys().next().value!)
    },
  }
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
