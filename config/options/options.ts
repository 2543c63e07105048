// Loads the options of a role: the command line overrides the environment, which overrides a TOML file, which overrides the schema's defaults.
// All faults are reported together.

import { readFileSync } from 'node:fs'
import type { Static, TObject } from 'typebox'
import { type OptionFault, OptionsError } from './faults.ts'
import { type OptionFile, OptionFileError, type OptionTable, placeInFile, readOptionFile } from './file.ts'
import { unknownKeys, unknownVariables } from './names.ts'
import { type Given, takeIn } from './rows.ts'
import { listOptions, type OptionSpec, variablesOfSpecs } from './schema.ts'
import { valueOfText } from './value.ts'

export { noteFault, type OptionFault, OptionsError, withFaults } from './faults.ts'
export { markdownTable, optionHead, optionRows, optionTable, printOptions, sampleFile } from './table.ts'

export interface OptionSources {
  /** Path of a TOML file. */
  readonly file?: string
  /** A file that is already read, and perhaps changed; replaces `file`. */
  readonly parsed?: { readonly path: string; readonly file: OptionFile }
  /** The variable with the path, used if `file` is not given. An empty variable means no file: compose files leave unset ones empty. */
  readonly fileVariable?: string
  readonly environment: Readonly<Record<string, string | undefined>>
  /** From the command line, by the schema's section and key; text is converted, undefined counts as not given. */
  readonly overrides?: Readonly<Record<string, unknown>>
  /** Variables of other roles; they are not reported as unknown. */
  readonly otherVariables?: readonly string[]
}

/**
 * Loads the options of a schema whose properties are sections (or options above the first section of a file).
 * The property `ageMs` of `batch` is `age_ms` under `[batch]` in a file, and `SVC_BATCH_AGE_MS` in the environment, unless its
 * schema names another variable (`environment`). For a secret, `<NAME>_FILE` may hold the path of a file with the value.
 * An empty variable is an empty text, which only a list and a text without a minimum length accept. A list of tables is a JSON
 * array of objects in a variable, with the same keys as in a file.
 *
 * @returns the value, frozen at every depth
 * @throws OptionsError with every fault of the file, the environment and the overrides: unknown names, wrong values, missing options
 */
export function loadOptions<Schema extends TObject>(schema: Schema, sources: OptionSources): Static<Schema> {
  const specs = listOptions(schema)
  const faults: OptionFault[] = []
  const path = sources.parsed?.path ?? sources.file ?? pathInVariable(sources)
  const file = sources.parsed?.file ?? readFile(path, sources, faults)
  if (file !== undefined) faults.push(...unknownKeys(schema, specs, path!, file))
  const others = sources.otherVariables ?? []
  const named = sources.fileVariable === undefined ? others : [...others, sources.fileVariable]
  faults.push(...unknownVariables(specs, sources.environment, named))

  const values = new Map<OptionSpec, unknown>()
  for (const spec of specs) {
    const given = [
      file === undefined ? undefined : fromFile(spec, path!, file),
      fromEnvironment(spec, sources.environment, faults),
      fromOverrides(spec, sources.overrides ?? {}),
    ]
    for (const one of given) {
      if (one !== undefined) values.set(spec, takeIn(spec, one, faults))
    }
  }
  addDefaults(specs, values, path, faults)
  if (faults.length > 0) throw new OptionsError(faults)
  return nest(specs, values) as Static<Schema>
}

/** The variables of a schema, including the `_FILE` ones of its secrets. */
export function variablesOf(schema: TObject): string[] {
  return variablesOfSpecs(listOptions(schema))
}

function pathInVariable({ environment, fileVariable }: OptionSources): string | undefined {
  return (fileVariable === undefined ? undefined : environment[fileVariable]) || undefined
}

function readFile(path: string | undefined, { file, fileVariable }: OptionSources, faults: OptionFault[]): OptionFile | undefined {
  if (path === undefined) return undefined
  try {
    return readOptionFile(path)
  } catch (error) {
    if (!(error instanceof OptionFileError)) throw error
    const named = file === undefined ? ` (${fileVariable})` : ''
    faults.push({ place: error.place + named, problem: error.message })
    return undefined
  }
}

function fromFile(spec: OptionSpec, path: string, file: OptionFile): Given | undefined {
  const keys = spec.name.split('.')
  let value: unknown = file.values
  for (const key of keys) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, key)) return undefined
    value = (value as OptionTable)[key]
  }
  return { value, placeOf: inner => placeInFile(path, file, [...keys, ...inner]) }
}

function fromEnvironment(spec: OptionSpec, environment: OptionSources['environment'], faults: OptionFault[]): Given | undefined {
  if (spec.variable === undefined) return undefined
  const text = environment[spec.variable]
  const fileVariable = `${spec.variable}_FILE`
  const path = spec.secret ? environment[fileVariable] : undefined
  if (path === undefined) return text === undefined ? undefined : givenAt(spec.variable, valueOfText(spec, text))
  if (text !== undefined) {
    faults.push({ place: fileVariable, problem: `${spec.variable} is set too: unset one of them` })
    return undefined
  }
  try {
    return givenAt(fileVariable, valueOfText(spec, readFileSync(path, 'utf8').replace(/\r?\n$/, '')))
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    faults.push({
      place: fileVariable,
      problem: `the file ${JSON.stringify(path)} cannot be read (${code}): give the path of a file that contains ${spec.name}`,
    })
    return undefined
  }
}

function fromOverrides(spec: OptionSpec, overrides: NonNullable<OptionSources['overrides']>): Given | undefined {
  let value: unknown = overrides
  for (const property of spec.path) value = (value as OptionTable | undefined)?.[property]
  if (value === undefined) return undefined
  return givenAt(spec.flag ?? `command line, ${spec.name}`, typeof value === 'string' ? valueOfText(spec, value) : value)
}

function givenAt(place: string, value: unknown): Given {
  return { value, placeOf: () => place }
}

function addDefaults(
  specs: readonly OptionSpec[],
  values: Map<OptionSpec, unknown>,
  file: string | undefined,
  faults: OptionFault[],
): void {
  const given = [...values.keys()]
  for (const spec of specs) {
    if (values.has(spec)) continue
    // An optional section with no option given stays absent: its defaults do not apply, and nothing in it is required.
    if (spec.optionalSections.some(section => !given.some(({ name }) => name.startsWith(`${section}.`)))) continue
    if (spec.default !== undefined) values.set(spec, structuredClone(spec.default))
    else if (!spec.optional) {
      const ways = [spec.variable === undefined ? '' : `set ${spec.variable}`, `write ${spec.name} in ${file ?? 'a file'}`].filter(
        way => way !== '',
      )
      faults.push({ place: spec.name, problem: `it is required: ${ways.join(' or ')}; give ${spec.allowed}` })
    }
  }
}

function nest(specs: readonly OptionSpec[], values: ReadonlyMap<OptionSpec, unknown>): unknown {
  const root: Record<string, unknown> = {}
  for (const spec of specs) {
    if (!values.has(spec) && spec.optionalSections.length > 0) continue
    let section = root
    for (const property of spec.path.slice(0, -1)) {
      section[property] ??= {}
      section = section[property] as Record<string, unknown>
    }
    if (values.has(spec)) section[spec.path.at(-1)!] = values.get(spec)
  }
  return frozen(root)
}

function frozen<Value>(value: Value): Value {
  if (typeof value === 'object' && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value)
    for (const inner of Object.values(value)) frozen(inner)
  }
  return value
}
