// Escapes text from devices for a terminal: it cannot trigger control sequences, hide characters, or imitate our own output.

import { printable } from '../../transformers/excerpt.ts'

/** Text on one line; control characters, direction marks and zero-width characters are escaped. */
export function plain(text: string): string {
  return printable(text.toWellFormed()).replace(/[\p{Cf}\p{Zl}\p{Zp}]/gu, character => `\\u{${character.codePointAt(0)!.toString(16)}}`)
}

/** Like `plain`, cut to at most `charactersMax` characters. */
export function short(text: string, charactersMax: number): string {
  const whole = plain(text)
  return whole.length > charactersMax ? `${whole.slice(0, charactersMax - 1)}…` : whole
}

/** JSON that is safe for a terminal: control characters are escaped as in JSON. */
export function jsonLine(value: unknown): string {
  return `${printable(JSON.stringify(value))}\n`
}

/** A payload as indented lines of text, or in hexadecimal if it is not text. */
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

/** Undefined if the bytes are not UTF-8, or contain control characters that are unusual in text. */
function textOf(bytes: Uint8Array): string | undefined {
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes)
    // oxlint-disable-next-line no-control-regex -- matches them on purpose
    return /[\u0000-\u0008\u000e-\u001a\u001c-\u001f]/.test(text) ? undefined : text
  } catch {
    return undefined
  }
}

/** A table with columns as wide as their content. */
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
