// Options shown to people: the README's table, a sample file, and the values in force without their secrets.

import type { TObject } from 'typebox'
import { listOptions, type OptionSpec } from './option-schema.ts'
import { masked } from './option-value.ts'

/** A Markdown table: option, variable, what is allowed, default, meaning. The README's tables are this, and a test compares them. */
export function optionTable(schema: TObject): string {
  const rows = listOptions(schema).flatMap(spec => [
    rowOf(spec, spec.name, spec.variable === undefined ? 'file only' : `\`${spec.variable}\``),
    ...spec.columns.map(column => rowOf(column, `${spec.name}[].${column.name}`, '')),
  ])
  const lines = [['Option', 'Variable', 'Allowed', 'Default', 'Meaning'], ['---', '---', '---', '---', '---'], ...rows]
  return lines.map(cells => `| ${cells.map(cell => cell.replaceAll('|', '\\|').replaceAll('\n', ' ')).join(' | ')} |`).join('\n')
}

function rowOf(spec: OptionSpec, name: string, variable: string): string[] {
  return [`\`${name}\``, variable, spec.allowed, defaultOf(spec), spec.description]
}

function defaultOf(spec: OptionSpec): string {
  if (spec.defaultText !== undefined) return spec.defaultText
  if (spec.default !== undefined)
    return `\`${spec.kind === 'list' ? (spec.default as unknown[]).join(',') : valueText(spec, spec.default)}\``
  return spec.optional ? 'none' : 'required'
}

/**
 * A TOML file in which every option stands at its default, commented out: `#port = 8080` becomes an option without its `#`. One
 * that has no default, or makes a section that may be absent, stands as a note (`# password = …`): the file with every `#port`
 * uncommented is that of the defaults.
 */
export function sampleFile(schema: TObject): string {
  return bySection(listOptions(schema), spec => {
    const notes = [
      spec.description,
      `${spec.allowed}${spec.variable === undefined ? '' : `; ${spec.variable}`}${required(spec)}`,
      ...spec.columns.map(columnNote),
      spec.example === undefined ? '' : `for example ${keyOf(spec)} = ${valueText(spec, spec.example)}`,
    ]
    const mark = spec.default === undefined || spec.optionalSections.length > 0 ? '# ' : '#'
    return `${notes
      .filter(note => note !== '')
      .map(note => `# ${note}\n`)
      .join('')}${mark}${keyOf(spec)} = ${spec.default === undefined ? '…' : valueText(spec, spec.default)}\n`
  })
}

function required(spec: OptionSpec): string {
  return spec.default === undefined && !spec.optional ? '; required' : ''
}

/** What stands in each of a list of tables. */
function columnNote(column: OptionSpec): string {
  const otherwise = column.default === undefined ? required(column) : `; else ${valueText(column, column.default)}`
  return `- ${column.name}: ${column.allowed}${otherwise}. ${column.description}`.trimEnd()
}

/** The options in force as TOML; secrets and the passwords of URLs are masked. */
export function printOptions(schema: TObject, options: unknown): string {
  return bySection(listOptions(schema), spec => {
    let value = options
    for (const property of spec.path) value = (value as Record<string, unknown> | undefined)?.[property]
    if (value === undefined) return `#${keyOf(spec)} is not set`
    return `${keyOf(spec)} = ${spec.secret ? '"***"' : valueText(spec, masked(value))}`
  })
}

function keyOf(spec: OptionSpec): string {
  return spec.name.slice(spec.name.lastIndexOf('.') + 1)
}

/** Options without a section come first, as TOML demands. */
function bySection(specs: readonly OptionSpec[], line: (spec: OptionSpec) => string): string {
  const sections = Map.groupBy(specs, ({ name }) => name.slice(0, Math.max(0, name.lastIndexOf('.'))))
  const names = [...sections.keys()].sort((left, right) => Number(left !== '') - Number(right !== ''))
  return names.map(name => [...(name === '' ? [] : [`[${name}]`]), ...sections.get(name)!.map(line)].join('\n')).join('\n\n')
}

/** A value in TOML, as a file has it: in a list of tables with the keys of a file. */
function valueText(spec: OptionSpec, value: unknown): string {
  if (spec.kind !== 'tables') return tomlOf(value)
  const rows = (value as readonly Readonly<Record<string, unknown>>[]).map(row => {
    const pairs = spec.columns.map(column => [column, row[column.path[0]!]] as const).filter(([, inner]) => inner !== undefined)
    return `{ ${pairs.map(([column, inner]) => `${column.name} = ${valueText(column, inner)}`).join(', ')} }`
  })
  return `[${rows.join(', ')}]`
}

/** A value in TOML; tables are inline ones. */
function tomlOf(value: unknown): string {
  if (typeof value === 'string') return JSON.stringify(value).replaceAll('\u007f', '\\u007f')
  if (Array.isArray(value)) return `[${value.map(tomlOf).join(', ')}]`
  if (value instanceof Date) return value.toISOString()
  if (typeof value !== 'object' || value === null) return String(value)
  const pairs = Object.entries(value).map(([key, inner]) => `${/^[\w-]+$/.test(key) ? key : JSON.stringify(key)} = ${tomlOf(inner)}`)
  return pairs.length === 0 ? '{}' : `{ ${pairs.join(', ')} }`
}
