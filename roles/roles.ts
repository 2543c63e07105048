// The roles of the command by name, each with its options, and where options come from: of all roles, whichever is started.

import type { TObject } from 'typebox'
import type { OptionSources } from '../config/options.ts'
import { configPathVariable, type RoleOfStore, type StoreName, storeNameList } from './stores/store.ts'

/** A role's options: what they are, and how they are read and checked. */
export interface Role {
  readonly schema: TObject
  readonly load: (sources: OptionSources) => unknown
  /** The variable that names its file, where there is one. */
  readonly fileVariable?: string
}

/** A role for each kind of store, by its name. */
export function roleOfStore(role: RoleOfStore, store: StoreName): string {
  return `${role} ${store}`
}

async function writerOf(store: StoreName): Promise<Role> {
  const { loadWriterOptions, writerOptionsOf } = await import('./writer-options.ts')
  const { storeKind } = await import('./stores/index.ts')
  const kind = await storeKind(store)
  return {
    schema: writerOptionsOf(kind),
    load: sources => loadWriterOptions(kind, sources),
    fileVariable: configPathVariable('writer', store),
  }
}

async function readerOf(store: StoreName): Promise<Role> {
  const { loadReaderOptions, readerOptionsOf } = await import('./reader-options.ts')
  const { storeKind } = await import('./stores/index.ts')
  const kind = await storeKind(store)
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
    const { apiOptions, loadApiOptions } = await import('./api-options.ts')
    return { schema: apiOptions, load: loadApiOptions }
  },
  ...Object.fromEntries(storeNameList.map(store => [roleOfStore('writer', store), () => writerOf(store)])),
  async ingest() {
    const { ingestRoleOptions, loadIngestOptions } = await import('./ingest-options.ts')
    return { schema: ingestRoleOptions, load: loadIngestOptions }
  },
  ...Object.fromEntries(storeNameList.map(store => [roleOfStore('reader', store), () => readerOf(store)])),
}

/** What tools are given beside the options of roles. */
const toolVariables = ['SVC_TOKEN']

/**
 * The variables of every role are known to each, so that all processes of a platform can be given one environment.
 *
 * @param fileVariable names the file where `file` is not given
 */
export async function sources(
  file: string | undefined,
  overrides: OptionSources['overrides'] = {},
  fileVariable?: string,
): Promise<OptionSources> {
  const { variablesOf } = await import('../config/options.ts')
  const all = await Promise.all(Object.values(roles).map(role => role()))
  const ofRoles = all.flatMap(({ schema, fileVariable: ofRole }) => [...variablesOf(schema), ...(ofRole === undefined ? [] : [ofRole])])
  const otherVariables = [...toolVariables, ...ofRoles]
  return {
    environment: process.env,
    overrides,
    otherVariables,
    ...(file === undefined ? {} : { file }),
    ...(fileVariable === undefined ? {} : { fileVariable }),
  }
}
