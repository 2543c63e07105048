// Rows in the form that is asked for, a slice at a time: nobody else waits for a page of large rows to be printed.

import { setImmediate as turn } from 'node:timers/promises'
import { openCsv } from './csv.ts'
import type { Form } from './media-type.ts'
import { slicesOf } from './parts.ts'
import { type Row, senmlFormat } from './reader.ts'
import { type Frame, frameEnd, frameStart, linesBytes, pageBytes, rowsBytes } from './record-json.ts'

interface Printer {
  readonly start: string
  /** @param isContinued others come before them */
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
 * A page, whole. Ordinary ones are printed in one go.
 *
 * @throws the signal's reason
 */
export async function printPage(
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
    pieces.push(bytesOf(printer.rows(slice, nth > 0)))
    await turn()
    signal.throwIfAborted()
  }
  pieces.push(Buffer.from(printer.end))
  return Buffer.concat(pieces)
}

/**
 * Pages as they come, from the first, which is there. None is asked for when the signal has aborted.
 *
 * @throws the signal's reason
 */
export async function* printPages(
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

function bytesOf(text: string | Buffer): Buffer {
  return typeof text === 'string' ? Buffer.from(text) : text
}
