// Finds unknown option names in a file or the environment, and suggests the name that was probably meant.

import type { TObject, TSchema } from 'typebox'
import type { OptionFault } from './faults.ts'
import { type OptionFile, type OptionTable, placeInFile } from './file.ts'
import { nearest } from './nearest.ts'
import { fileKey, isSection, type OptionSpec, variablesOfSpecs } from './schema.ts'

/** The unknown keys of a file, each with the nearest known name. */
export function unknownKeys(schema: TObject, specs: readonly OptionSpec[], path: string, file: OptionFile): OptionFault[] {
  const faults: OptionFault[] = []
  const walk = (section: TObject, table: OptionTable, above: readonly string[]): void => {
    const known = new Map(
      Object.entries(section.properties as Record<string, TSchema>).map(([property, inner]) => [fileKey(property), inner]),
    )
    for (const [key, value] of Object.entries(table)) {
      const keys = [...above, key]
      const inner = known.get(key)
      const place = placeInFile(path, file, keys)
      if (inner === undefined) {
        const named = `unknown option ${keys.join('.')}`
        faults.push({ place, problem: named + suggestion(key, keys, [...known.keys()], specs) })
      } else if (isSection(inner)) {
        if (typeof value === 'object' && value !== null && !Array.isArray(value)) walk(inner, value as OptionTable, keys)
        else faults.push({ place, problem: `${keys.join('.')} is a section: write it as [${keys.join('.')}]` })
      }
    }
  }
  walk(schema, file.values, [])
  return faults
}

/** The nearest name in the same section, or the same key in another one. */
function suggestion(key: string, keys: readonly string[], siblings: readonly string[], specs: readonly OptionSpec[]): string {
  const near = nearest(key, siblings)
  if (near !== undefined) return `: did you mean ${[...keys.slice(0, -1), near].join('.')}?`
  const elsewhere = specs.find(({ name }) => name.endsWith(`.${key}`) || name === key)
  if (elsewhere !== undefined) return `: did you mean ${elsewhere.name}?`
  return siblings.length === 0 ? '' : `: the options here are ${siblings.join(', ')}`
}

/** The SVC_ variables that belong neither to these options nor to `others`, each with the nearest known name. */
export function unknownVariables(
  specs: readonly OptionSpec[],
  environment: Readonly<Record<string, string | undefined>>,
  others: readonly string[],
): OptionFault[] {
  const known = new Set([...variablesOfSpecs(specs), ...others])
  return Object.keys(environment)
    .filter(name => name.startsWith('SVC_') && environment[name] !== undefined && !known.has(name))
    .map(name => {
      const near = nearest(name, [...known])
      return { place: name, problem: `unknown variable: ${near === undefined ? 'unset it' : `did you mean ${near}?`}` }
    })
}
