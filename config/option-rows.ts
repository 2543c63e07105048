// A value of an option taken in: checked, and a list of tables read table by table, each with its own defaults and faults.

import { nearest } from './nearest.ts'
import type { OptionFault } from './option-faults.ts'
import type { OptionTable } from './option-file.ts'
import type { OptionSpec } from './option-schema.ts'
import { problemsOf, shown } from './option-value.ts'

/** A value as it was given, and where. */
export interface Given {
  readonly value: unknown
  /** Where a part of it stands: `[]` is all of it, `['0', 'name']` the name in the first of its tables. */
  placeOf(keys: readonly string[]): string
}

/**
 * What the option is to be, with what is missing in its tables filled in, and their keys as code names them.
 *
 * @returns with faults, anything: it is not to be used
 */
export function takeIn(spec: OptionSpec, given: Given, faults: OptionFault[]): unknown {
  return taken(spec, spec.name, given.value, [], given, faults)
}

function taken(spec: OptionSpec, name: string, value: unknown, keys: readonly string[], given: Given, faults: OptionFault[]): unknown {
  const note = (problem: string): number => faults.push({ place: given.placeOf(keys), problem: `${name} ${problem}` })
  // Of a list of tables, only how many there may be: each is looked at on its own.
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
    const hint = near === undefined ? `known here are ${names.join(', ')}` : `did you mean ${name}.${near}?`
    faults.push({ place: given.placeOf([...keys, key]), problem: `there is no option ${name}.${key}: ${hint}` })
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
