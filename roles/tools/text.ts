// Text of devices on a terminal: nothing of it is executed, nothing hides, and no line of it can pass for one of ours.

import { printable } from '../../transformers/excerpt.ts'

/** On one line, with whatever a terminal would act on escaped: control characters, and what turns the direction of text or has no width. */
export function plain(text: string): string {
  return printable(text.toWellFormed()).replace(/[\p{Cf}\p{Zl}\p{Zp}]/gu, character => `\\u{${character.codePointAt(0)!.toString(16)}}`)
}

/** As `plain`, and at most so many characters. */
export function short(text: string, charactersMax: number): string {
  const whole = plain(text)
  return whole.length > charactersMax ? `${whole.slice(0, charactersMax - 1)}…` : whole
}

/** JSON that a terminal shows as it is: control characters are escaped as JSON has it. */
export function jsonLine(value: unknown): string {
  return `${printable(JSON.stringify(value))}\n`
}

/** A payload: its text, each line indented, or its bytes in hexadecimal where they are no text. */
export function payloadLines(bytes: Uint8Array): string[] {
  const text = textOf(bytes)
  if (text !== undefined) return text.split(/\r?\n/).map(line => `  ${plain(line)}`)
  const lines: string[] = []
  for (let at = 0; at < bytes.length; at += 16) {
    const some = bytes.subarray(at, at + 16)
    const hex = [...some].map(byte => byte.toString(16).padStart(2, '0')).join(' ')
    const seen = [...some].map(byte => (byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : '.')).join('')
    lines.push(`  ${at.toString(16).padStart(8, '0')}  ${hex.padEnd(47)}  ${seen}`)
  }
  return lines
}

/** Undefined for what is not UTF-8, or holds control characters that no text has. */
function textOf(bytes: Uint8Array): string | undefined {
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes)
    // oxlint-disable-next-line no-control-regex -- they are what is looked for
    return /[\u0000-\u0008\u000e-\u001a\u001c-\u001f]/.test(text) ? undefined : text
  } catch {
    return undefined
  }
}

/** Columns that are as wide as what stands in them. */
export function table(rows: readonly (readonly string[])[]): string {
  const widths: number[] = []
  for (const row of rows) for (const [at, cell] of row.entries()) widths[at] = Math.max(widths[at] ?? 0, cell.length)
  return rows
    .map(
      row =>
        `${row
          .map((cell, at) => cell.padEnd(widths[at]!))
          .join('  ')
          .trimEnd()}\n`,
    )
    .join('')
}
