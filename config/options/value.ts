// Parses the value of one option from the text of a variable or flag, checks it against its schema, and prints it without secrets.

import { Errors } from 'typebox/schema'
import type { OptionKind, OptionSpec } from './schema.ts'

/**
 * The value that a text stands for: `true`, `9000`, `a,b`, `[{"name":"a"}]`. Text that does not parse is returned as it is, and the check then reports it.
 */
export function valueOfText(spec: OptionSpec, text: string): unknown {
  if (spec.kind !== 'list' && spec.kind !== 'tables') return scalarOf(spec.kind, spec.choices, text)
  if (text.trim() === '') return []
  if (spec.kind === 'tables') return jsonOf(text)
  return text.split(',').map(item => scalarOf(spec.itemKind!, [], item.trim()))
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

function scalarOf(kind: OptionKind, choices: readonly unknown[], text: string): unknown {
  if (kind === 'integer' && /^-?\d+$/.test(text)) return Number(text)
  if (kind === 'number' && /^-?\d+(\.\d+)?([eE][+-]?\d+)?$/.test(text)) return Number(text)
  if (kind === 'boolean' && (text === 'true' || text === 'false')) return text === 'true'
  if (kind === 'choice') return choices.find(choice => String(choice) === text) ?? text
  return text
}

/** The problems of a value, each worded to follow the option's name; empty if the value is allowed. */
export function problemsOf(spec: OptionSpec, value: unknown): string[] {
  const [, errors] = Errors(spec.schema, value)
  if (errors.length === 0) return []
  if (spec.kind !== 'structure') return [`is ${shown(spec, value)}: give ${spec.allowed}`]
  const problems = errors
    .filter(error => error.keyword !== 'boolean')
    .map(error => {
      const unknown = error.keyword === 'additionalProperties' ? `: ${error.params.additionalProperties.join(', ')}` : ''
      return error.instancePath === ''
        ? `is ${shown(spec, value)}: give ${spec.allowed}`
        : `at ${error.instancePath} ${error.message}${unknown}`
    })
  return [...new Set(problems)]
}

/** A value for a message: secrets and the passwords of URLs are masked, long values are cut. */
export function shown(spec: OptionSpec, value: unknown): string {
  if (value === undefined || value === '') return 'empty'
  if (spec.secret) return 'set (value not shown)'
  const text = JSON.stringify(masked(value))
  return text.length > 80 ? `${text.slice(0, 77)}…` : text
}

/** The value with the passwords of its URLs masked, at every depth. */
export function masked(value: unknown): unknown {
  if (typeof value === 'string') return value.replace(/^([a-z][a-z0-9+.-]*:\/\/[^:/?#@]*):[^/?#]*@/i, '$1:***@')
  if (Array.isArray(value)) return value.map(masked)
  if (typeof value === 'object' && value !== null && !(value instanceof Date)) {
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, masked(inner)]))
  }
  return value
}
