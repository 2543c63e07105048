// Answers as text, for tests that compare them, and the record that they begin with.

import { type Frame, pageBytes, rowsBytes } from '../../../readers/answers/record-json.ts'
import type { Row, SenmlRow } from '../../../readers/reader.ts'

export function pageText(frame: Frame, rows: readonly Row[]): string {
  return pageBytes(frame, rows).toString()
}

export function rowsText(rows: readonly Row[]): string {
  return rowsBytes(rows).toString()
}

export const origin = { channel: 'c', subtopic: '', publisher: 'p', protocol: 'http', position: 1n, index: 0 }
/** A record with everything that one can have: tsc asks for a new field wherever one is written. */
export type FullRecord = { readonly [Field in keyof SenmlRow]: Exclude<SenmlRow[Field], undefined> }
/** With nothing but a name. */
export const bare: SenmlRow = {
  kind: 'senml',
  ...origin,
  name: 'n',
  unit: undefined,
  timeUs: 1_600_000_000_000_000,
  value: undefined,
  stringValue: undefined,
  boolValue: undefined,
  dataValue: undefined,
  sum: undefined,
  updateTime: undefined,
}
export const full: FullRecord = {
  ...bare,
  unit: 'Cel',
  value: 21.5,
  stringValue: 's',
  boolValue: true,
  dataValue: new Uint8Array([0xff, 0xef]),
  sum: 4,
  updateTime: 30,
}
