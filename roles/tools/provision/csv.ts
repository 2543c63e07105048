// Reads and writes CSV (RFC 4180); rows keep the line on which they start.

import { ToolError } from '../../../bin/streams.ts'

export interface CsvRow {
  readonly line: number
  readonly cells: readonly string[]
}

/** A quoted or plain cell, and its delimiter. */
const cell = /(?:"([^"]*(?:""[^"]*)*)"|([^",\r\n]*))(,|\r\n|\r|\n|$)/y

/**
 * Parses CSV; empty lines are skipped.
 *
 * @param file for the message, which never shows content
 * @param firstLine the line on which the text starts, if it is not the start of the file
 * @throws ToolError for a quote inside an unquoted cell, and for a quoted cell without an end
 */
export function parseCsv(file: string, text: string, firstLine = 1): CsvRow[] {
  const rows: CsvRow[] = []
  let cells: string[] = []
  let [at, line, first] = [firstLine === 1 && text.startsWith('\uFEFF') ? 1 : 0, firstLine, firstLine]
  while (at < text.length || cells.length > 0) {
    cell.lastIndex = at
    const match = cell.exec(text)
    if (match === null)
      throw new ToolError(`${file}:${line}: unbalanced quote: enclose a cell that contains quotes in quotes, and double each of them`)
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

/** A row with its line end. */
export function csvLine(cells: readonly string[]): string {
  return `${cells.map(text => (/[",\r\n]|^\s|\s$/.test(text) ? `"${text.replaceAll('"', '""')}"` : text)).join(',')}\n`
}
