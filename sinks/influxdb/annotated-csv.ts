// Reads the annotated CSV in which InfluxDB answers queries: tables one after another, each with the types and names of its columns.
//
// A field in quotes comes with every line end in it as CRLF and without any other CR, as the server's encoder has it: who needs those exactly
// asks for them escaped (`exactText` of flux.ts).

import { StringDecoder } from 'node:string_decoder'
import { SinkError } from '../sink-error.ts'

export interface Columns {
  readonly types: readonly string[]
  /** By name, where the column stands. */
  readonly places: ReadonlyMap<string, number>
}

export interface Row {
  readonly columns: Columns
  readonly cells: readonly string[]
}

/** Rows in pages, as they arrive. */
export type Answer = AsyncIterable<readonly Row[]>

/** The text of a column; undefined where the row's table has none of that name. An empty text may also stand for no value. */
export function cell({ columns, cells }: Row, name: string): string | undefined {
  const place = columns.places.get(name)
  return place === undefined ? undefined : cells[place]
}

export function typeOf({ columns }: Row, name: string): string | undefined {
  const place = columns.places.get(name)
  return place === undefined ? undefined : columns.types[place]
}

/** @throws SinkError where the answer tells of an error in its midst */
export async function* answerOf(chunks: AsyncIterable<Uint8Array>): Answer {
  const decoder = new StringDecoder('utf8')
  const reader = csvReader()
  for await (const chunk of chunks) {
    const rows = reader.read(decoder.write(chunk))
    if (rows.length > 0) yield rows
  }
  const rest = reader.read(`${decoder.end()}\n`)
  if (rest.length > 0) yield rest
}

function csvReader() {
  let pending = ''
  let types: readonly string[] | undefined
  let columns: Columns = { types: [], places: new Map() }

  /** The next record of `pending` from `start`, and where it ends; undefined where it is not all there yet. */
  function record(start: number): { cells: string[]; end: number } | undefined {
    const lineEnd = pending.indexOf('\n', start)
    if (lineEnd < 0) return undefined
    const line = pending.slice(start, pending[lineEnd - 1] === '\r' ? Math.max(start, lineEnd - 1) : lineEnd)
    if (!line.includes('"')) return { cells: line.split(','), end: lineEnd + 1 }
    return quotedRecord(pending, start)
  }

  return {
    /** @returns the rows that ended in this piece */
    read(piece: string): Row[] {
      pending += piece
      const rows: Row[] = []
      let start = 0
      for (let next = record(start); next !== undefined; next = record(start)) {
        start = next.end
        const { cells } = next
        if (cells.length === 1) continue
        if (cells[0] === '#datatype') types = cells
        else if (types === undefined) rows.push(checked({ columns, cells }))
        else {
          columns = { types, places: new Map(cells.map((name, place) => [name, place])) }
          types = undefined
        }
      }
      pending = pending.slice(start)
      return rows
    },
  }
}

/** A record with fields in quotes (RFC 4180 §2). */
function quotedRecord(text: string, start: number): { cells: string[]; end: number } | undefined {
  const cells: string[] = []
  for (let at = start; ; ) {
    if (text[at] === '"') {
      let value = ''
      for (let from = at + 1; ; ) {
        const quote = text.indexOf('"', from)
        if (quote < 0) return undefined
        value += text.slice(from, quote)
        if (text[quote + 1] !== '"') {
          at = quote + 1
          break
        }
        value += '"'
        from = quote + 2
      }
      cells.push(value)
    } else {
      let end = at
      while (end < text.length && text[end] !== ',' && text[end] !== '\n') end++
      cells.push(text.slice(at, text[end] === '\n' && text[end - 1] === '\r' ? Math.max(at, end - 1) : end))
      at = end
    }
    if (text[at] === '\r') at++
    if (at >= text.length) return undefined
    const isLast = text[at] === '\n'
    at++
    if (isLast) return { cells, end: at }
  }
}

/**
 * An error that happens while rows are on their way comes as a table of its own. The server could begin the query, and all queries are ours: what ended
 * it is the server's state, memory or a time-out, which passes.
 */
function checked(row: Row): Row {
  const { places } = row.columns
  if (!places.has('error') || !places.has('reference') || places.has('table')) return row
  throw new SinkError('transient', `InfluxDB has ended a query: ${cell(row, 'error')}`)
}
