// Reads the fleet for `./sluice provision` from CSV, JSON or YAML. Every row is checked before anything is sent.

import { isUtf8 } from 'node:buffer'
import { extname } from 'node:path'
import { readInput, ToolError } from '../../../bin/streams.ts'
import { nearest } from '../../../config/options/nearest.ts'
import { short } from '../text.ts'
import { parseCsv } from './csv.ts'

/** One device, as in POST /mapping (SPEC §4). */
export interface Device {
  readonly externalId: string
  readonly externalKey: string
  readonly name?: string
  /** Line in the file, from 1. */
  readonly line: number
}

interface Entry {
  readonly line: number
  readonly value: unknown
  /** A fault found while parsing; `value` is then empty. */
  readonly fault?: string
}

const columns = ['external_id', 'external_key', 'name'] as const
const required: readonly string[] = ['external_id', 'external_key']
const bytesMax = 1_024
/** More would not help the user. */
const faultsMax = 20

/**
 * Reads a fleet: `.csv` with a header line, `.json` with an array, `.yaml` or `.yml` with a list.
 *
 * @throws ToolError that lists the bad rows with their lines; it never shows a key
 */
export async function readFleet(file: string): Promise<Device[]> {
  const read = readers[extname(file).toLowerCase()]
  if (read === undefined)
    throw new ToolError(`${JSON.stringify(file)} has an unknown format: give a file that ends in .csv, .json, .yaml or .yml`)
  const bytes = await readInput(file, 'provision')
  if (!isUtf8(bytes)) throw new ToolError(`${file}: this is not UTF-8: save it as UTF-8`)
  const faults: string[] = []
  const devices: Device[] = []
  const lines = new Map<string, number>()
  for (const { line, value, fault = deviceFault(value) } of await read(file, Buffer.from(bytes).toString())) {
    if (fault !== undefined) {
      faults.push(`${file}:${line}: ${fault}`)
      continue
    }
    const { external_id: externalId, external_key: externalKey, name } = value as Readonly<Record<(typeof columns)[number], string>>
    const earlier = lines.get(externalId)
    if (earlier !== undefined) faults.push(`${file}:${line}: its external_id is already used in line ${earlier}`)
    lines.set(externalId, line)
    devices.push({ externalId, externalKey, line, ...(name ? { name } : {}) })
  }
  if (faults.length > 0) {
    const more = faults.length > faultsMax ? [`and ${faults.length - faultsMax} more`] : []
    throw new ToolError([...faults.slice(0, faultsMax), ...more, 'nothing was sent: correct these rows'].join('\n'))
  }
  if (devices.length === 0) throw new ToolError(`${file}: the file contains no devices`)
  return devices
}

const readers: Readonly<Record<string, (file: string, text: string) => Entry[] | Promise<Entry[]>>> = {
  '.csv': csvEntries,
  '.json': yamlEntries,
  '.yaml': yamlEntries,
  '.yml': yamlEntries,
}

/** An empty cell counts as not given. */
function csvEntries(file: string, text: string): Entry[] {
  const [header, ...rows] = parseCsv(file, text)
  const names = header?.cells.map(name => name.trim()) ?? []
  const missing = required.filter(name => !names.includes(name))
  if (missing.length > 0) {
    throw new ToolError(`${file}:1: the first line lacks ${missing.join(' and ')}: start with a line such as ${columns.join(',')}`)
  }
  const unknown = names.find(name => !isColumn(name))
  if (unknown !== undefined) throw new ToolError(`${file}:1: ${unknownName(unknown)}`)
  return rows.map(({ line, cells }) => {
    const fault = cells.length > names.length ? { fault: `it has ${cells.length} cells, but the first line has ${names.length}` } : {}
    return { line, value: Object.fromEntries(names.map((name, at) => [name, cells[at]] as const).filter(([, cell]) => cell)), ...fault }
  })
}

/** JSON is read as the YAML that it is, which gives each element its line. */
async function yamlEntries(file: string, text: string): Promise<Entry[]> {
  const { isSeq, LineCounter, parseDocument } = await import('yaml')
  const lineCounter = new LineCounter()
  const document = parseDocument(text, { lineCounter })
  const [fault] = document.errors
  // Without the parser's message, which shows the line: that may contain a key.
  if (fault !== undefined) throw new ToolError(`${file}:${lineCounter.linePos(fault.pos[0]).line}: it cannot be parsed (${fault.code})`)
  const nodes = isSeq(document.contents) ? document.contents.items : []
  const lines = nodes.map(node => lineCounter.linePos(node.range[0]).line)
  let values: unknown
  try {
    values = document.toJS()
  } catch (error) {
    throw new ToolError(`${file}: its aliases cannot be resolved: write each device out`, { cause: error })
  }
  return arrayOf(file, values).map((value, at) => ({ line: lines[at]!, value }))
}

function arrayOf(file: string, value: unknown): unknown[] {
  if (Array.isArray(value)) return value
  throw new ToolError(`${file}: not a list: give [{"external_id": …, "external_key": …, "name": …}, …]`)
}

/** The fault of a device, or undefined; never shows a value. */
function deviceFault(value: unknown): string | undefined {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return `it is not an object with ${columns.join(', ')}`
  const given = value as Readonly<Record<string, unknown>>
  const unknown = Object.keys(given).find(name => !isColumn(name))
  if (unknown !== undefined) return unknownName(unknown)
  for (const name of columns) {
    const text = given[name] ?? undefined
    if (text === undefined && !required.includes(name)) continue
    if (text === undefined) return `${name} is missing`
    if (typeof text !== 'string') return `${name} is not text: put it in quotes`
    if (text === '' && required.includes(name)) return `${name} is empty`
    if (/\p{Cc}/u.test(text) || !text.isWellFormed()) return `${name} contains a control character or half of a surrogate pair: remove it`
    if (Buffer.byteLength(text) > bytesMax) return `${name} has more than ${bytesMax} bytes`
  }
  return undefined
}

function isColumn(name: string): boolean {
  return (columns as readonly string[]).includes(name)
}

function unknownName(name: string): string {
  const near = nearest(name, columns)
  return `unknown key ${short(name, 40)}: ${near === undefined ? `the keys are ${columns.join(', ')}` : `did you mean ${near}?`}`
}
