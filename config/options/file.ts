// Reads an options file: TOML values with their line numbers, so that a fault can name its place.

import { readFileSync } from 'node:fs'
import toml from 'toml'

export type OptionTable = Readonly<Record<string, unknown>>

export interface OptionFile {
  readonly values: OptionTable
  /**
   * The line of a key, from 1: `['http', 'port']`; of a section's header: `['http']`; of the first of a list of tables and of a key in it:
   * `['fields', '0']`, `['fields', '0', 'name']`. undefined if it is not known.
   */
  lineOf(path: readonly string[]): number | undefined
}

/** The file cannot be read, or is not TOML. `place` is the file, with the line if it is known. */
export class OptionFileError extends Error {
  override readonly name = 'OptionFileError'
  readonly place: string

  constructor(place: string, message: string, cause?: unknown) {
    super(message, { cause })
    this.place = place
  }
}

/** @throws OptionFileError */
export function readOptionFile(path: string): OptionFile {
  if (path === '') throw new OptionFileError('options file', 'its path is empty: give the path of a TOML file')
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    const reason =
      code === 'ENOENT' ? 'file not found' : code === 'EACCES' ? 'it is not readable for this user' : `it cannot be read (${code})`
    throw new OptionFileError(path, `${reason}: give the path of a TOML file`, error)
  }
  return { values: parse(path, text), lineOf: keyPath => lines(text).get(keyPath.join('\0')) }
}

/** `sluice.toml:12`: the line of the key or, if that is not known, of the section around it; the file alone if neither is known. */
export function placeInFile(path: string, file: OptionFile, keys: readonly string[]): string {
  for (let length = keys.length; length > 0; length--) {
    const line = file.lineOf(keys.slice(0, length))
    if (line !== undefined) return `${path}:${line}`
  }
  return path
}

/** The parser's errors: syntax errors have `location` and `found`; those of its own rules have `line` and a message. */
interface TomlError {
  readonly message: string
  readonly line?: number
  readonly location?: { readonly start: { readonly line: number; readonly column: number } }
  readonly found?: string | null
}

function parse(path: string, text: string): OptionTable {
  try {
    return toml.parse(text) as OptionTable
  } catch (error) {
    const { line, location, found, message } = error as TomlError
    const at = line ?? location?.start.line
    const problem = found === undefined ? ruleBroken(message) : unexpected(found, location?.start.column)
    // Without its cause, whose message may hold a value.
    throw new OptionFileError(at === undefined ? path : `${path}:${at}`, `this is not TOML: ${problem}`)
  }
}

const howToWrite = 'put text in quotes and a section in [brackets]'

/** Only the parser's messages about keys are shown: others may contain a value, which may be a secret. */
function ruleBroken(message: string): string {
  return /^(Cannot |Maximum nesting)/.test(message) ? message : `invalid value for TOML; ${howToWrite}`
}

/** Without the character found: it may be part of a secret. The parser's own message lists every character that could follow, which is no help. */
function unexpected(found: string | null, column: number | undefined): string {
  const what = found === null ? 'the file ends too early' : `unexpected text at column ${column}`
  return `${what}; ${howToWrite}`
}

/**
 * The line of each key of a file that parses. The parser does not record lines, so this scans the text again; keys inside an
 * inline table are not found.
 */
function lines(text: string): Map<string, number> {
  const places = new Map<string, number>()
  const tables = new Map<string, number>()
  let section: string[] = []
  let quotes: string | undefined
  for (const [index, line] of text.split('\n').entries()) {
    if (quotes !== undefined) {
      if (line.includes(quotes)) quotes = undefined
      continue
    }
    const header = /^\s*(\[\[?)\s*([^\]]+?)\s*\]/.exec(line)
    if (header !== null) {
      const [, brackets, name] = header
      section = keysOf(name!)
      if (brackets === '[[') {
        const nth = tables.get(name!) ?? 0
        tables.set(name!, nth + 1)
        section.push(String(nth))
      }
      remember(places, section, index + 1)
      continue
    }
    const pair = /^\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=(.*)$/.exec(line)
    if (pair === null) continue
    remember(places, [...section, ...keysOf(pair[1]!)], index + 1)
    quotes = /"""|'''/.exec(pair[2]!)?.[0]
    if (quotes !== undefined && pair[2]!.split(quotes).length > 2) quotes = undefined
  }
  return places
}

function remember(places: Map<string, number>, keys: readonly string[], line: number): void {
  for (let length = 1; length <= keys.length; length++) {
    const key = keys.slice(0, length).join('\0')
    if (!places.has(key)) places.set(key, line)
  }
}

function keysOf(dotted: string): string[] {
  return dotted.split('.').map(key => key.trim().replace(/^(["'])(.*)\1$/, '$2'))
}
