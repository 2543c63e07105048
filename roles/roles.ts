// The roles of the command by name, each with its options, and the sources from which options are read.

import type { TObject } from 'typebox'
import type { OptionSources } from '../config/options/options.ts'
import { configPathVariable, type RoleOfStore, type StoreName, storeNameList } from './stores/store.ts'

/** A role's options: their schema, and how they are loaded and checked. */
export interface Role {
  readonly schema: TObject
  readonly load: (sources: OptionSources) => unknown
  /** The variable with the path of its options file, if it has one. */
  readonly fileVariable?: string
}

/** A role for each kind of store, by its name. */
export function roleOfStore(role: RoleOfStore, store: StoreName): string {
  return `${role} ${store}`
}

async function writerOf(store: StoreName): Promise<Role> {
  const { loadWriterOptions, writerOptionsOf } = await import('./writer/options.ts')
  const { storeOptions } = await import('./stores/options.ts')
  const kind = await storeOptions(store)
  return {
    schema: writerOptionsOf(kind),
    load: sources => loadWriterOptions(kind, sources),
    fileVariable: configPathVariable('writer', store),
  }
}

async function readerOf(store: StoreName): Promise<Role> {
  const { loadReaderOptions, readerOptionsOf } = await import('./reader/options.ts')
  const { storeOptions } = await import('./stores/options.ts')
  const kind = await storeOptions(store)
  return {
    schema: readerOptionsOf(kind),
    load: sources => loadReaderOptions(kind, sources),
    fileVariable: configPathVariable('reader', store),
  }
}

export const roles: Readonly<Record<string, () => Promise<Role>>> = {
  async up() {
    const { upOptions, loadUpOptions } = await import('../up-options.ts')
    return { schema: upOptions, load: loadUpOptions }
  },
  async api() {
    const { apiOptions, loadApiOptions } = await import('./api/options.ts')
    return { schema: apiOptions, load: loadApiOptions }
  },
  ...Object.fromEntries(storeNameList.map(store => [roleOfStore('writer', store), () => writerOf(store)])),
  async ingest() {
    const { ingestRoleOptions, loadIngestOptions } = await import('./ingest/options.ts')
    return { schema: ingestRoleOptions, load: loadIngestOptions }
  },
  async bridge() {
    const { bridgeOptions, loadBridgeOptions } = await import('./bridge/options.ts')
    return { schema: bridgeOptions, load: loadBridgeOptions }
  },
  ...Object.fromEntries(storeNameList.map(store => [roleOfStore('reader', store), () => readerOf(store)])),
}

/** Variables of tools that are not options of roles. */
const toolVariables = ['SVC_TOKEN', 'SVC_THING_KEY', 'SVC_COPY_URL']

/**
 * Where the options of a role come from. Every role knows the variables of all roles, so that all processes of a platform can share one
 * environment; the other roles are loaded only if the environment has a variable that is not this role's.
 *
 * @param fileVariable holds the path if `file` is not given
 */
export async function sources(
  schema: TObject,
  file: string | undefined,
  overrides: OptionSources['overrides'] = {},
  fileVariable?: string,
): Promise<OptionSources> {
  const { variablesOf } = await import('../config/options/options.ts')
  const own = new Set([...variablesOf(schema), fileVariable])
  const hasOthers = Object.keys(process.env).some(name => name.startsWith('SVC_') && !own.has(name))
  return {
    environment: process.env,
    overrides,
    otherVariables: hasOthers ? await allVariables() : [],
    ...(file === undefined ? {} : { file }),
    ...(fileVariable === undefined ? {} : { fileVariable }),
  }
}

export async function allVariables(): Promise<string[]> {
  const { variablesOf } = await import('../config/options/options.ts')
  const all = await Promise.all(Object.values(roles).map(role => role()))
  const roleVariables = all.flatMap(({ schema, fileVariable }) => [
    ...variablesOf(schema),
    ...(fileVariable === undefined ? [] : [fileVariable]),
  ])
  return [...toolVariables, ...roleVariables]
}
