// Serializes pages and exports as JSON, NDJSON or CSV, gzipped if the client accepts it, with the link to the next page and the ETag of a page.

import { setImmediate as turn } from 'node:timers/promises'
import { coded, contentTypes, type Form } from './answers/content-negotiation.ts'
import { openCsv } from './answers/csv.ts'
import type { EtagOf } from './answers/etag.ts'
import { bucketsJson, type Frame, frameEnd, frameStart, linesBytes, pageBytes, rowsBytes } from './answers/record-json.ts'
import { type Answer, slicesOf } from './paging.ts'
import { type Bucket, type Row, senmlFormat } from './reader.ts'
import { furtherOn } from './request/query-text.ts'
import type { ReadRequest } from './request.ts'

/** A page to be serialized. */
export type Page = { readonly rows: Answer<Row> } | { readonly buckets: Answer<Bucket> }

/** A complete response, shared by all requests for the same page at the same time. */
export interface Serialized {
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | Buffer
}

/** How a page is serialized. */
export interface Serialization {
  readonly request: Exclude<ReadRequest, { kind: 'export' }>
  readonly form: Form
  readonly isCoded: boolean
  /** The requested URL. */
  readonly url: string
  readonly etagOf: EtagOf
}

/** @throws the signal's reason */
export async function serializePage(
  page: Page,
  { request, form, isCoded, url, etagOf }: Serialization,
  signal: AbortSignal,
): Promise<Serialized> {
  const { total, nextCursor, hasMore } = 'rows' in page ? page.rows : page.buckets
  const { offset, filter, limit, csvSafe, keys } = request
  const frame: Frame = { total, offset, limit, format: filter.format, nextCursor, keys }
  const text =
    'rows' in page ? await rowsText(form, frame, page.rows.items, csvSafe, signal) : bucketsText(form, frame, page.buckets.items, csvSafe)
  const { headers, body } = await serializeText(form, text, isCoded)
  // RFC 8288: the same request for the next page.
  const link = hasMore
    ? `<${furtherOn(url, nextCursor === undefined ? { offset: offset + limit } : { cursor: nextCursor })}>; rel="next"`
    : ''
  return { headers: { ...headers, 'cache-control': 'private, no-cache', etag: etagOf(body, link), ...(hasMore ? { link } : {}) }, body }
}

/** A text with the headers of its form, gzipped if that is worthwhile. */
export async function serializeText(form: Form, text: string | Buffer, isCoded: boolean): Promise<Serialized> {
  const bytes = isCoded ? await coded(text) : undefined
  const headers = headersOf(form)
  return bytes === undefined ? { headers, body: text } : { headers: { ...headers, 'content-encoding': 'gzip' }, body: bytes }
}

/** Responses depend on the caller, on the accepted form and coding, and with `http.allowed_origins` on the origin of the page. */
export function headersOf(form: Form): Record<string, string> {
  return {
    'content-type': contentTypes[form],
    'cache-control': 'private, no-store',
    vary: 'Authorization, Accept, Accept-Encoding, Origin',
  }
}

interface Printer {
  readonly start: string
  /** @param isContinued true if other rows precede */
  rows(rows: readonly Row[], isContinued: boolean): string | Buffer
  readonly end: string
}

function openPrinter(form: Form, frame: Frame, csvSafe: boolean): Printer {
  if (form === 'json')
    return { start: frameStart(frame), rows: (rows, isContinued) => rowsBytes(rows, isContinued, frame.keys), end: frameEnd(frame) }
  if (form === 'ndjson') return { start: '', rows: rows => linesBytes(rows, frame.keys), end: '' }
  const csv = openCsv(frame.format === senmlFormat ? 'senml' : 'document', csvSafe, frame.keys)
  return { start: csv.header(), rows: rows => csv.rows(rows), end: '' }
}

/**
 * A complete page of rows; a large one is serialized in slices, so that other requests get a turn in between.
 *
 * @throws the signal's reason
 */
export async function rowsText(
  form: Form,
  frame: Frame,
  rows: readonly Row[],
  csvSafe: boolean,
  signal: AbortSignal,
): Promise<string | Buffer> {
  const slices = slicesOf(rows)
  const isWhole = slices.length === 1
  if (isWhole && form === 'json') return pageBytes(frame, rows)
  if (isWhole && form === 'ndjson') return linesBytes(rows, frame.keys)
  const printer = openPrinter(form, frame, csvSafe)
  if (isWhole) return printer.start + String(printer.rows(rows, false))
  const pieces: Buffer[] = [Buffer.from(printer.start)]
  for (const [nth, slice] of slices.entries()) {
    pieces.push(Buffer.from(printer.rows(slice, nth > 0)))
    await turn()
    signal.throwIfAborted()
  }
  pieces.push(Buffer.from(printer.end))
  return Buffer.concat(pieces)
}

/**
 * Serializes pages as they are read, starting with the given first one. After the signal has aborted, no further page is requested.
 *
 * @throws the signal's reason
 */
export async function* exportText(
  form: Form,
  frame: Frame,
  first: IteratorResult<readonly Row[]>,
  pages: AsyncGenerator<readonly Row[]>,
  csvSafe: boolean,
  signal: AbortSignal,
): AsyncGenerator<string | Buffer> {
  const printer = openPrinter(form, frame, csvSafe)
  if (printer.start !== '') yield printer.start
  let isContinued = false
  for (let page = first; page.done !== true; page = await pages.next()) {
    for (const slice of slicesOf(page.value)) {
      yield printer.rows(slice, isContinued)
      isContinued = true
      await turn()
      signal.throwIfAborted()
    }
  }
  if (printer.end !== '') yield printer.end
}

function bucketsText(form: Form, frame: Frame, buckets: readonly Bucket[], csvSafe: boolean): string {
  if (form === 'csv') {
    const csv = openCsv('bucket', csvSafe, frame.keys)
    return csv.header() + csv.buckets(buckets)
  }
  const items = bucketsJson(buckets, form === 'json' ? ',' : '\n', frame.keys)
  if (form === 'json') return frameStart(frame) + items + frameEnd(frame)
  return items === '' ? '' : `${items}\n`
}
