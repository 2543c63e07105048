// An options file: TOML to values, with the lines they stand on, so that a fault can name its place.

import { readFileSync } from 'node:fs'
import toml from 'toml'

export type OptionTable = Readonly<Record<string, unknown>>

export interface OptionFile {
  readonly values: OptionTable
  /**
   * The line of a key, from 1: `['http', 'port']`; of a section's header: `['http']`; of the first of a list of tables and of a key in it:
   * `['fields', '0']`, `['fields', '0', 'name']`. undefined where it cannot be told.
   */
  lineOf(path: readonly string[]): number | undefined
}

/** The file cannot be read, or is not TOML. `place` is the file with the line, where there is one. */
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
  if (path === '') throw new OptionFileError('the file of the options', 'its path is empty: give the path of a TOML file')
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    const reason =
      code === 'ENOENT' ? 'there is no such file' : code === 'EACCES' ? 'it is not readable for this user' : `it cannot be read (${code})`
    throw new OptionFileError(path, `${reason}: give the path of a TOML file`, error)
  }
  return { values: parse(path, text), lineOf: keyPath => lines(text).get(keyPath.join('\0')) }
}

/** `sluice.toml:12`: the line of the key or, where that cannot be told, of what is around it; without either the file alone. */
export function placeInFile(path: string, file: OptionFile, keys: readonly string[]): string {
  for (let length = keys.length; length > 0; length--) {
    const line = file.lineOf(keys.slice(0, length))
    if (line !== undefined) return `${path}:${line}`
  }
  return path
}

/** What the parser throws: from its grammar with `location` and `found`, from its own rules with `line` and a sentence. */
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

const howToWrite = 'text stands in quotes, a section in [brackets]'

/** The parser's sentences about keys are shown; others may repeat a value, which may be a secret. */
function ruleBroken(message: string): string {
  return /^(Cannot |Maximum nesting)/.test(message) ? message : `a value here is none that TOML has; ${howToWrite}`
}

/** Without the character: it may be one of a secret. The grammar's own message lists every one that could follow, which helps nobody. */
function unexpected(found: string | null, column: number | undefined): string {
  const what = found === null ? 'the file ends too early' : `what stands at column ${column} is not expected there`
  return `${what}; ${howToWrite}`
}

/**
 * Where each key of a file that parses stands. The parser keeps no places, so this reads the lines again; of a key that is
 * written in an unusual way (inside an inline table) nothing is known.
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
