// Rows of a store in parts: how many are asked for at once, and how many of a page are answered, by how large they are.

import type { PageQuery, Selection } from './query.ts'
import { keyOf, type Reader, type Row, senmlFormat } from './reader.ts'

/** How many rows are asked for at once. Nobody knows how large they are before they are there. */
export interface Pace {
  readonly first: number
  /** No part has more rows than this many times those of the part before it, so that a few small ones do not vouch for a thousand. */
  readonly growth: number
  readonly most: number
  /** Parts are made for about so many bytes, by what the rows of the part before had. */
  readonly bytes: number
}

const rowsMin = 10
/**
 * Records are mostly small, and payloads have 256 KiB at most. A page of a hundred records is one part. A part that
 * follows is of about a megabyte; where large rows come behind many small ones it is at most 1,000 records or 500 documents, of 256 KiB.
 */
const recordPace: Pace = { first: 128, growth: 2, most: 1000, bytes: 1024 * 1024 }
const documentPace: Pace = { first: 32, growth: 2, most: 500, bytes: 1024 * 1024 }

/**
 * Up to `limit` rows of what `read` gives: each part begins behind the one before. Memory for one part, however many there are.
 *
 * @param read fewer than `limit` only where there are no more
 */
export async function* partsOf(
  query: PageQuery,
  { first, growth, most, bytes }: Pace,
  read: (query: PageQuery) => Promise<readonly Row[]>,
): AsyncGenerator<readonly Row[]> {
  let { after, limit: left } = query
  let limit = Math.min(first, left)
  for (;;) {
    const rows = await read({ ...query, limit, offset: after === undefined ? query.offset : 0, after })
    if (rows.length > 0) yield rows
    left -= rows.length
    if (rows.length < limit || left <= 0) return
    after = keyOf(rows.at(-1)!)
    const fitting = Math.floor((bytes * rows.length) / rows.reduce((sum, row) => sum + bytesOf(row), 0))
    limit = Math.min(left, most, growth * limit, Math.max(rowsMin, fitting))
  }
}

/** Rows in their order, at most `query.limit`. */
export function rowParts(reader: Pick<Reader, 'read'>, query: PageQuery, signal: AbortSignal): AsyncGenerator<readonly Row[]> {
  const pace = query.format === senmlFormat ? recordPace : documentPace
  return partsOf(query, pace, part => reader.read(part, signal))
}

/** Every row of a selection, newest first: what is made into groups where the store cannot. */
export async function* rowsOf(reader: Pick<Reader, 'read'>, selection: Selection, signal: AbortSignal): AsyncGenerator<Row> {
  const query: PageQuery = { ...selection, direction: 'desc', limit: Number.POSITIVE_INFINITY, offset: 0, after: undefined }
  for await (const rows of rowParts(reader, query, signal)) yield* rows
}

/** A page ends before its texts have more: what it takes to answer it is bounded, however large rows are. */
export const pageBytesMax = 16 * 1024 * 1024

/** The rows of a page: as many as there are, up to `limit` and `pageBytesMax`, and one at least. */
export async function gather(
  parts: AsyncGenerator<readonly Row[]>,
  limit: number,
): Promise<{ readonly items: readonly Row[]; readonly hasMore: boolean }> {
  const items: Row[] = []
  let bytes = 0
  for await (const rows of parts) {
    for (const row of rows) {
      bytes += bytesOf(row)
      if (items.length === limit || (bytes > pageBytesMax && items.length > 0)) return { items, hasMore: true }
      items.push(row)
    }
  }
  return { items, hasMore: false }
}

/** What is printed before others have a turn: 25 ms of documents, and nearly a thousand ordinary records are within it. */
const sliceBytes = 256 * 1024

/** The rows in slices of about a quarter of a megabyte; mostly they are one. */
export function slicesOf(rows: readonly Row[]): readonly (readonly Row[])[] {
  const slices: (readonly Row[])[] = []
  let start = 0
  let bytes = 0
  for (let nth = 0; nth < rows.length; nth++) {
    const more = bytesOf(rows[nth]!)
    if (bytes + more > sliceBytes && nth > start) {
      slices.push(rows.slice(start, nth))
      start = nth
      bytes = 0
    }
    bytes += more
  }
  slices.push(start === 0 ? rows : rows.slice(start))
  return slices
}

/** A row without its texts. */
const rowBytes = 250

/** About as many as it has printed: characters of its texts, which are mostly bytes. */
export function bytesOf(row: Row): number {
  if (row.kind === 'document') return rowBytes + row.payloadText.length
  return rowBytes + row.name.length + (row.stringValue?.length ?? 0) + (row.dataValue?.length ?? 0)
}
