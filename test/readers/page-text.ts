// Answers as text, for tests that compare them.

import type { Row } from '../../readers/reader.ts'
import { type Frame, pageBytes, rowsBytes } from '../../readers/record-json.ts'

export function pageText(frame: Frame, rows: readonly Row[]): string {
  return pageBytes(frame, rows).toString()
}

export function rowsText(rows: readonly Row[]): string {
  return rowsBytes(rows).toString()
}
