// Pages that were printed lately: many ask for the same page every few seconds, and what has not changed is not printed anew, nor compressed, nor given
// another cursor.
//
// The store is asked all the same, and its rows are compared value by value: that takes a tenth of the time. A page is kept when it has come twice: to
// hold on to the rows of pages that always change would cost more than it saves. Of one that has come once it is remembered where it begins and ends, apart
// from those that are kept, so that questions which nobody asks again push none of them out.
//
// What is kept is bounded by the memory of all of it, rows and print: a print of 100 KB may be of rows that have 16 MiB. The page that was found
// longest ago goes first.

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
  readonly ends: string
  readonly answer: RowsAnswer
  readonly printed: Printed
  /** That it takes to keep it. */
  readonly bytes: number
}

/** Of all pages together: 480 of a hundred ordinary records as JSON, or nearly 900 of them in gzip. */
export const keptBytesMax = 32 * 1024 * 1024
/** Of one page, so that a few large ones do not push out all others: a thousand ordinary records in gzip are within it. */
const pageBytesMax = 512 * 1024
/** Pages that have come once: as many others may come before one comes again. With the longest keys they have 2 MiB. */
const seenMax = 1024
/** Nobody looks at a page by a longer URL again and again. */
const keyLengthMax = 2048

export function openPrintedPages(): PrintedPages {
  /** In the order in which they were found or kept. */
  const pages = new Map<string, Page>()
  /** Where those that have come once begin and end: most pages that change do so elsewhere. */
  const seen = new Map<string, string>()
  let bytes = 0

  function add(key: string, page: Page): void {
    pages.set(key, page)
    bytes += page.bytes
    for (const oldest of pages.keys()) {
      if (bytes <= keptBytesMax) return
      remove(oldest)
    }
  }

  function remove(key: string): void {
    bytes -= pages.get(key)?.bytes ?? 0
    pages.delete(key)
  }

  return {
    find(key, answer) {
      const page = pages.get(key)
      if (page === undefined || !isSame(page.answer, answer)) return undefined
      // What is asked for last goes last.
      pages.delete(key)
      pages.set(key, page)
      return page.printed
    },
    keep(key, { items, total, hasMore }, printed) {
      const endsBefore = pages.get(key)?.ends ?? seen.get(key)
      remove(key)
      seen.delete(key)
      if (key.length > keyLengthMax) return
      const ends = endsOf(items)
      // Most pages never come again: the rows of one that has come once are not looked at.
      if (endsBefore === ends) {
        const pageBytes = emptyPageBytes + 2 * key.length + memoryOfPrinted(printed) + memoryOfRows(items)
        if (pageBytes <= pageBytesMax)
          return add(key, { ends, answer: { items, total, hasMore }, printed: withOwnBytes(printed), bytes: pageBytes })
      }
      seen.set(key, ends)
      if (seen.size > seenMax) seen.delete(seen.keys().next().value!)
    },
  }
}

function endsOf(rows: readonly Row[]): string {
  return rows.length === 0 ? '' : `${rows[0]!.position}/${rows[0]!.index} ${rows.at(-1)!.position}/${rows.at(-1)!.index} ${rows.length}`
}

/** A page without its rows, its body and its key, which the link to the next page repeats. */
const emptyPageBytes = 1024
/** A row without its texts; 1,000 records of which each has a name, a unit and a subtopic of its own take 350 bytes each in the heap. */
const rowBytes = 300
/** An array of bytes without its bytes. */
const arrayBytes = 200

/** A character takes two bytes where one of its text is beyond Latin-1. */
function memoryOfPrinted({ body }: Printed): number {
  return typeof body === 'string' ? 2 * body.length : body.length
}

/** A short body in gzip is a view of Node's pool, 64 KiB that it would keep whole. */
function withOwnBytes(printed: Printed): Printed {
  const { headers, body } = printed
  if (typeof body === 'string' || body.buffer.byteLength === body.length) return printed
  const own = Buffer.allocUnsafeSlow(body.length)
  body.copy(own)
  return { headers, body: own }
}

/** At least about what the rows hold in memory, which is more than `bytesOf` has, what they have printed. */
function memoryOfRows(rows: readonly Row[]): number {
  let bytes = rows.length * rowBytes
  let buffer: ArrayBufferLike | undefined
  for (const row of rows) {
    bytes += 2 * row.subtopic.length
    if (row.kind === 'document') {
      bytes += 2 * row.payloadText.length
      continue
    }
    bytes += 2 * (row.name.length + (row.unit?.length ?? 0) + (row.stringValue?.length ?? 0))
    if (row.dataValue === undefined) continue
    bytes += arrayBytes
    // Drivers give views of what came from the store, neighbours of the same, and one view keeps all of it.
    if (row.dataValue.buffer !== buffer) bytes += row.dataValue.buffer.byteLength
    buffer = row.dataValue.buffer
  }
  return bytes
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
