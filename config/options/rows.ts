// Checks the value of an option; a list of tables is checked table by table, each with its own defaults and faults.

import type { OptionFault } from './faults.ts'
import type { OptionTable } from './file.ts'
import { nearest } from './nearest.ts'
import type { OptionSpec } from './schema.ts'
import { problemsOf, shown } from './value.ts'

/** A value as given, and its place. */
export interface Given {
  readonly value: unknown
  /** The place of a part: `[]` is the whole value, `['0', 'name']` the name in its first table. */
  placeOf(keys: readonly string[]): string
}

/**
 * The checked value, with missing defaults in its tables filled in and their keys renamed as in code.
 *
 * @returns an undefined result if faults were added: do not use it
 */
export function takeIn(spec: OptionSpec, given: Given, faults: OptionFault[]): unknown {
  return taken(spec, spec.name, given.value, [], given, faults)
}

function taken(spec: OptionSpec, name: string, value: unknown, keys: readonly string[], given: Given, faults: OptionFault[]): unknown {
  const note = (problem: string): number => faults.push({ place: given.placeOf(keys), problem: `${name} ${problem}` })
  // For a list of tables, checks only its length: each table is checked separately.
  const checked = spec.kind === 'tables' ? { ...spec, schema: { ...spec.schema, items: {} } } : spec
  const problems = problemsOf(checked, value)
  for (const problem of problems) note(problem)
  if (spec.kind !== 'tables' || problems.length > 0) return value
  return (value as readonly unknown[]).map((row, nth) => takenRow(spec, `${name}[${nth}]`, row, [...keys, String(nth)], given, faults))
}

function takenRow(spec: OptionSpec, name: string, row: unknown, keys: readonly string[], given: Given, faults: OptionFault[]): unknown {
  const place = given.placeOf(keys)
  const names = spec.columns.map(column => column.name)
  if (typeof row !== 'object' || row === null || Array.isArray(row)) {
    faults.push({ place, problem: `${name} is ${shown(spec, row)}: give a table with ${names.join(', ')}` })
    return row
  }
  const table = row as OptionTable
  for (const key of Object.keys(table).filter(key => !names.includes(key))) {
    const near = nearest(key, names)
    const hint = near === undefined ? `the options here are ${names.join(', ')}` : `did you mean ${name}.${near}?`
    faults.push({ place: given.placeOf([...keys, key]), problem: `unknown option ${name}.${key}: ${hint}` })
  }
  const result: Record<string, unknown> = {}
  for (const column of spec.columns) {
    const property = column.path[0]!
    const inner = `${name}.${column.name}`
    if (Object.hasOwn(table, column.name)) {
      result[property] = taken(column, inner, table[column.name], [...keys, column.name], given, faults)
    } else if (column.default !== undefined) {
      result[property] = structuredClone(column.default)
    } else if (!column.optional) {
      faults.push({ place, problem: `${inner} is missing: give ${column.allowed}` })
    }
  }
  return result
}
