// Describes what a schema allows: the second half of every message about a wrong value in options and requests.

/** The JSON Schema keywords that the description is built from. */
export interface Keywords {
  type?: string
  const?: unknown
  enum?: unknown[]
  anyOf?: Keywords[]
  items?: Keywords
  minimum?: number
  maximum?: number
  minLength?: number
  maxLength?: number
  minItems?: number
  maxItems?: number
  pattern?: string
  format?: string
  /** Replaces the generated description where that would be unclear: `a URL such as postgres://host/name`. */
  allowed?: string
}

const formats: Readonly<Record<string, string>> = {
  uri: 'a URL',
  url: 'a URL',
  uuid: 'a UUID',
  email: 'an e-mail address',
  'date-time': 'a time such as 2026-01-31T12:00:00Z',
}

/** The values of an enum, a const or a union of consts; empty for any other schema. */
export function choicesOf(schema: Keywords): readonly unknown[] {
  if (schema.enum !== undefined) return schema.enum
  if (schema.const !== undefined) return [schema.const]
  if (schema.anyOf?.every(one => one.const !== undefined)) return schema.anyOf.map(one => one.const)
  return []
}

/** The allowed values, worded to follow "give": `a whole number from 0 to 65535`, `one of eq, lt, gt`, `a UUID`. */
export function allowedBy(schema: Keywords): string {
  if (schema.allowed !== undefined) return schema.allowed
  const choices = choicesOf(schema)
  if (choices.length > 0) return `${choices.length > 1 ? 'one of ' : ''}${choices.join(', ')}`
  if (schema.anyOf !== undefined) return schema.anyOf.map(allowedBy).join(', or ')
  switch (schema.type ?? '') {
    case 'boolean':
      return 'true or false'
    case 'integer':
      return `a whole number${rangeOf(schema.minimum, schema.maximum, '')}`
    case 'number':
      return `a number${rangeOf(schema.minimum, schema.maximum, '')}`
    case 'string':
      return textBy(schema)
    case 'array':
      return `a list${rangeOf(schema.minItems, schema.maxItems, ' items')}${schema.items === undefined ? '' : `, each ${allowedBy(schema.items)}`}`
    case 'object':
      return 'an object'
    default:
      return schema.type ?? 'another value'
  }
}

function rangeOf(least: number | undefined, most: number | undefined, unit: string): string {
  const preposition = unit === '' ? 'from' : 'of'
  if (least !== undefined && most !== undefined) return ` ${preposition} ${least} to ${most}${unit}`
  if (least !== undefined) return ` of at least ${least}${unit}`
  return most === undefined ? '' : ` of at most ${most}${unit}`
}

function textBy({ minLength, maxLength, pattern, format }: Keywords): string {
  const what = format === undefined ? 'text' : (formats[format] ?? `text of the format ${format}`)
  const length = minLength === 1 && maxLength === undefined ? ' that is not empty' : rangeOf(minLength, maxLength, ' characters')
  return `${what}${length}${pattern === undefined ? '' : ` matching ${pattern}`}`
}
