// Turns a TypeBox object of sections into a flat list of options, each with its names and allowed values.

import { IsOptional, type TObject, type TSchema } from 'typebox'
import { allowedBy, choicesOf, type Keywords } from './allowed.ts'
import { variableOf } from './variable.ts'

export type OptionKind = 'integer' | 'number' | 'boolean' | 'string' | 'choice' | 'list' | 'tables' | 'structure'

/** Keywords that an option's schema may have in addition to those of JSON Schema. */
interface OptionKeywords extends Keywords {
  properties?: Record<string, TSchema>
  default?: unknown
  description?: string
  /** Values as in code; the sample file shows the first. */
  examples?: unknown[]
  /** The variable's name, if it is not derived from section and key. */
  environment?: string
  /** The command-line flag that overrides it, for messages. */
  flag?: string
  /** Never printed; can be read from a file named by `<VARIABLE>_FILE`. */
  secret?: boolean
  /** Shown in tables for a default that depends on the machine: `one for each core`. */
  defaultText?: string
}

export interface OptionSpec {
  /** The names of the properties in code: `['http', 'port']`. */
  readonly path: readonly string[]
  /** The name in the file: `http.port`. */
  readonly name: string
  /** undefined for a structure, which can only be set in a file. */
  readonly variable: string | undefined
  readonly flag: string | undefined
  readonly schema: TSchema
  readonly kind: OptionKind
  /** The kind of a list's items; else undefined. */
  readonly itemKind: OptionKind | undefined
  /** The options of each table in a list of tables; paths and names are relative to the table. Else empty. */
  readonly columns: readonly OptionSpec[]
  readonly choices: readonly unknown[]
  readonly secret: boolean
  readonly optional: boolean
  /** Names of the optional sections around it. */
  readonly optionalSections: readonly string[]
  readonly default: unknown
  /** Shown in tables as the default; undefined if there is none. */
  readonly defaultText: string | undefined
  /** undefined without one. */
  readonly example: unknown
  readonly description: string
  /** The allowed values, worded to follow "give": `a whole number from 0 to 65535`. */
  readonly allowed: string
}

/** `ageMs` is `age_ms` in a file. */
export function fileKey(property: string): string {
  return property.replace(/[A-Z]/g, letter => `_${letter.toLowerCase()}`)
}

/** True for a schema whose properties are options themselves. */
export function isSection(schema: TSchema): schema is TObject {
  const keywords = schema as OptionKeywords
  return keywords.type === 'object' && keywords.properties !== undefined && Object.keys(keywords.properties).length > 0
}

/**
 * The options of a schema, in schema order.
 *
 * @throws Error if two options share a variable, which is a bug in the schema
 */
export function listOptions(schema: TObject): OptionSpec[] {
  const specs: OptionSpec[] = []
  collect(schema, [], [], specs)
  const owners = new Map<string, string>()
  for (const spec of specs) {
    if (spec.variable === undefined) continue
    const owner = owners.get(spec.variable)
    if (owner !== undefined)
      throw new Error(`the options ${owner} and ${spec.name} share the variable ${spec.variable}: rename one of them`)
    owners.set(spec.variable, spec.name)
  }
  return specs
}

function collect(section: TObject, path: readonly string[], optionalSections: readonly string[], specs: OptionSpec[]): void {
  for (const [property, schema] of Object.entries(section.properties as Record<string, TSchema>)) {
    const inner = [...path, property]
    const optional = IsOptional(schema)
    if (isSection(schema)) collect(schema, inner, optional ? [...optionalSections, nameOf(inner)] : optionalSections, specs)
    else specs.push(specOf(schema, inner, optional, optionalSections))
  }
}

function specOf(schema: OptionKeywords, path: readonly string[], optional: boolean, optionalSections: readonly string[]): OptionSpec {
  const kind = kindOf(schema)
  const name = nameOf(path)
  const columns = kind === 'tables' ? columnsOf(name, schema) : []
  return {
    path,
    name,
    variable: kind === 'structure' ? undefined : (schema.environment ?? variableOf(name)),
    flag: schema.flag,
    schema,
    kind,
    itemKind: kind === 'list' ? kindOf(schema.items!) : undefined,
    columns,
    choices: choicesOf(schema),
    secret: schema.secret ?? false,
    defaultText: schema.defaultText,
    optional,
    optionalSections,
    default: schema.default,
    example: schema.examples?.[0],
    description: schema.description ?? '',
    allowed: schema.allowed ?? wordsOf(kind, name, columns, schema),
  }
}

/** @throws Error for a secret: a list of tables is always shown in full */
function columnsOf(name: string, { items }: OptionKeywords): OptionSpec[] {
  return Object.entries((items as OptionKeywords).properties!).map(([property, schema]) => {
    const column = { ...specOf(schema, [property], IsOptional(schema), []), variable: undefined }
    if (column.secret) throw new Error(`${name} contains a secret, ${column.name}: make it a separate option`)
    return column
  })
}

function wordsOf(kind: OptionKind, name: string, columns: readonly OptionSpec[], schema: OptionKeywords): string {
  if (kind === 'structure') return schema.type === 'array' ? 'a list of tables' : 'a table'
  if (kind !== 'tables') return allowedBy(schema)
  const { type, minItems, maxItems } = schema
  const list = allowedBy({ type: type!, ...(minItems === undefined ? {} : { minItems }), ...(maxItems === undefined ? {} : { maxItems }) })
  return `${list}, each a table with ${columns.map(({ name }) => name).join(', ')}: [[${name}]] in a file, a JSON array in the variable`
}

/** Their variables, with the `_FILE` ones of secrets. */
export function variablesOfSpecs(specs: readonly OptionSpec[]): string[] {
  return specs.flatMap(({ variable, secret }) => (variable === undefined ? [] : secret ? [variable, `${variable}_FILE`] : [variable]))
}

function nameOf(path: readonly string[]): string {
  return path.map(fileKey).join('.')
}

function kindOf(schema: Keywords): OptionKind {
  if (choicesOf(schema).length > 0) return 'choice'
  if (schema.type === 'array') {
    const item = kindOf(schema.items ?? {})
    if (item === 'structure') return isSection(schema.items ?? {}) ? 'tables' : 'structure'
    return item === 'list' || item === 'tables' ? 'structure' : 'list'
  }
  if (schema.type === 'integer' || schema.type === 'number' || schema.type === 'boolean' || schema.type === 'string') return schema.type
  return 'structure'
}
