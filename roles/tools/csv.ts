// CSV as tools read and write it (RFC 4180): rows with the line that each begins on.

import { ToolError } from '../../bin/streams.ts'

export interface CsvRow {
  readonly line: number
  readonly cells: readonly string[]
}

/** A quoted cell, or a plain one, and what ends it. */
const cell = /(?:"([^"]*(?:""[^"]*)*)"|([^",\r\n]*))(,|\r\n|\r|\n|$)/y

/**
 * Lines without anything are no rows.
 *
 * @param file for the message, which never holds what stands there
 * @throws ToolError for quotes within a cell that does not begin with one, and for a quoted cell that does not end
 */
export function parseCsv(file: string, text: string): CsvRow[] {
  const rows: CsvRow[] = []
  let cells: string[] = []
  let [at, line, first] = [text.startsWith('\uFEFF') ? 1 : 0, 1, 1]
  while (at < text.length || cells.length > 0) {
    cell.lastIndex = at
    const match = cell.exec(text)
    if (match === null)
      throw new ToolError(`${file}:${line}: a quote here has no other: a cell that holds quotes stands in quotes, each of them doubled`)
    const [whole, quoted, plain = '', end = ''] = match
    at += whole.length
    cells.push(quoted?.replaceAll('""', '"') ?? plain)
    line += quoted?.match(/\r\n|\r|\n/g)?.length ?? 0
    if (end === ',') continue
    if (cells.length > 1 || cells[0] !== '') rows.push({ line: first, cells })
    cells = []
    line++
    first = line
  }
  return rows
}

/** A row with its end of line. */
export function csvLine(cells: readonly string[]): string {
  return `${cells.map(text => (/[",\r\n]|^\s|\s$/.test(text) ? `"${text.replaceAll('"', '""')}"` : text)).join(',')}\n`
}
