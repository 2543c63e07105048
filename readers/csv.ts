// Rows as CSV (RFC 4180): the columns of the JSON answer in its order, a header line, CRLF, quotes where a cell needs them.

import { secondsText } from './json-bytes.ts'
import { canonicalPayload, numberText } from './payload-json.ts'
import type { Bucket, DocumentRow, Row, SenmlRow } from './reader.ts'
import { base64url } from './record-json.ts'
import { keyName, type RecordKeys } from './record-keys.ts'

const head = ['channel', 'subtopic', 'publisher', 'protocol'] as const
const columns = {
  senml: [...head, 'name', 'unit', 'time', 'updateTime', 'value', 'stringValue', 'boolValue', 'dataValue', 'sum'],
  document: [...head, 'created', 'payload'],
  bucket: ['channel', 'publisher', 'subtopic', 'name', 'unit', 'time', 'value', 'count'],
} as const
const lineEnd = '\r\n'
/** Spreadsheets trim blanks before they look at the first character, and some take the full-width signs for the others. */
const formula = /^(?:[\t\r\n]|\s*[=+\-@＝＋－＠])/

export interface CsvWriter {
  header(): string
  rows(rows: readonly Row[]): string
  buckets(buckets: readonly Bucket[]): string
}

/**
 * @param kind of the lines to come
 * @param safe texts that a spreadsheet may take for a formula get an apostrophe in front. Numbers of ours stay numbers
 */
export function openCsv(kind: Row['kind'] | 'bucket', safe: boolean, keys?: RecordKeys): CsvWriter {
  const cell = (text: string): string => quoted(safe && formula.test(text) ? `'${text}` : text)

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
      // An empty text is told from none by its quotes.
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
      // Beyond the range of a double there is none.
      Number.isFinite(value) ? numberText(value) : '',
      String(count),
    ].join(',') + lineEnd

  return {
    header: () => columns[kind].map(column => keyName(column, keys)).join(',') + lineEnd,
    rows: rows => rows.map(row => (row.kind === 'senml' ? recordLine(row) : documentLine(row))).join(''),
    buckets: buckets => buckets.map(bucketLine).join(''),
  }
}

/** A blank at either end is kept by quotes, too: some readers cut it. */
function quoted(text: string): string {
  return /[",\r\n]|^\s|\s$/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}
