// Writes rows as CSV (RFC 4180): the columns of the JSON response in the same order, a header line, CRLF, quotes if needed.

import { canonicalPayload, numberText } from '../../transformers/json/canonical.ts'
import type { Bucket, DocumentRow, Row, SenmlRow } from '../reader.ts'
import { secondsText } from './json-bytes.ts'
import { base64url } from './record-json.ts'
import { keyName, type RecordKeys } from './record-keys.ts'

const head = ['channel', 'subtopic', 'publisher', 'protocol'] as const
const columns = {
  senml: [...head, 'name', 'unit', 'time', 'updateTime', 'value', 'stringValue', 'boolValue', 'dataValue', 'sum'],
  document: [...head, 'created', 'payload'],
  bucket: ['channel', 'publisher', 'subtopic', 'name', 'unit', 'time', 'value', 'count'],
} as const
const lineEnd = '\r\n'
/**
 * Characters that start a formula at the start of a cell. Spreadsheets trim white space before they check it, and some also interpret full-width
 * signs. Cells are separated by commas here, and in many countries by semicolons; an import may also use tabs, bars and spaces. To those the quotes
 * of this format are part of a cell, so a separator or a line break in a text starts another one (OWASP, CSV injection).
 */
const formulaStart = /(?<=(?:^|[;\t| \r\n])[\s"]*)[=+\-@＝＋－＠]/g

/** Writes lines of one kind, each with its line end. */
export interface CsvWriter {
  header(): string
  rows(rows: readonly Row[]): string
  buckets(buckets: readonly Bucket[]): string
}

/**
 * @param kind of the lines
 * @param safe puts an apostrophe before what a spreadsheet may interpret as a formula in a text. Numbers stay numbers
 */
export function openCsv(kind: Row['kind'] | 'bucket', safe: boolean, keys?: RecordKeys): CsvWriter {
  const cell = safe ? safeCell : quoted

  const recordLine = (row: SenmlRow): string =>
    [
      cell(row.channel),
      cell(row.subtopic),
      cell(row.publisher),
      cell(row.protocol),
      cell(row.name),
      cell(row.unit ?? ''),
      secondsText(row.timeUs),
      row.updateTime === undefined ? '' : numberText(row.updateTime),
      row.value === undefined ? '' : numberText(row.value),
      // Quotes distinguish an empty text from a missing one.
      row.stringValue === undefined ? '' : row.stringValue === '' ? '""' : cell(row.stringValue),
      row.boolValue === undefined ? '' : String(row.boolValue),
      row.dataValue === undefined ? '' : row.dataValue.length === 0 ? '""' : cell(base64url(row.dataValue)),
      row.sum === undefined ? '' : numberText(row.sum),
    ].join(',') + lineEnd

  const documentLine = (row: DocumentRow): string =>
    [
      cell(row.channel),
      cell(row.subtopic),
      cell(row.publisher),
      cell(row.protocol),
      String(row.createdNs),
      cell(canonicalPayload(row.payloadText)),
    ].join(',') + lineEnd

  const bucketLine = ({ channel, publisher, subtopic, name, unit, timeUs, value, count }: Bucket): string =>
    [
      cell(channel),
      cell(publisher),
      cell(subtopic),
      cell(name),
      cell(unit ?? ''),
      secondsText(timeUs),
      // Empty if it is beyond the range of a double.
      Number.isFinite(value) ? numberText(value) : '',
      String(count),
    ].join(',') + lineEnd

  return {
    header: () => columns[kind].map(column => keyName(column, keys)).join(',') + lineEnd,
    rows: rows => rows.map(row => (row.kind === 'senml' ? recordLine(row) : documentLine(row))).join(''),
    buckets: buckets => buckets.map(bucketLine).join(''),
  }
}

/** Quotes also keep a text together where several separators count. */
function safeCell(text: string): string {
  const safe = text.replace(formulaStart, "'$&").replace(/^[\t\r\n]/, "'$&")
  return /[;\t|]/.test(safe) ? inQuotes(safe) : quoted(safe)
}

/** Also quotes a cell with white space at either end, which some programs trim. */
function quoted(text: string): string {
  return /[",\r\n]|^\s|\s$/.test(text) ? inQuotes(text) : text
}

function inQuotes(text: string): string {
  return `"${text.replaceAll('"', '""')}"`
}
