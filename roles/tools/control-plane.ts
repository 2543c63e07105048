// What the operator's commands on the control plane work on: its database on a server, by the options of `sluice api`, or in the data folder of a
// `sluice up` that is stopped.

import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { Command } from 'commander'
import { ToolError } from '../../bin/streams.ts'
import { type DataFolder, openDataFolder } from '../../config/data-folder.ts'
import { HttpError } from '../../config/http/errors.ts'
import { type Logger, openLogger } from '../../config/logger.ts'
import type { Database } from '../../config/postgres/database.ts'
import { openServer } from '../../config/postgres/server.ts'
import { type MasterKeys, parseMasterKeys, readSecretFile } from '../../config/secrets.ts'
import { openAuditLog } from '../../control-plane/audit/store.ts'
import { openChanges } from '../../control-plane/changes.ts'
import { assertUpToDate } from '../../control-plane/installation.ts'
import type { ControlPlaneOptions } from '../../control-plane/options.ts'
import type { PolicyStore } from '../../control-plane/policies/policy-store.ts'
import { openWrites, type Writes } from '../../control-plane/writes.ts'
import { databaseFolder, masterKeyFile, openFolderDatabase } from '../folder-database.ts'
import type { sources as readSources } from '../roles.ts'
import { explained } from './failure.ts'

export interface DatabaseFlags {
  readonly config?: string
  readonly data?: string
}

export interface ControlPlaneSite {
  readonly options: ControlPlaneOptions
  /** As they are given to instances. Read each time: in a data folder they change. */
  masterKeys(): Promise<MasterKeys>
  /** The data folder, whose lock is held; undefined on a server. */
  readonly folder: DataFolder | undefined
  readonly logger: Logger
  /** Opens the database for `work`, and closes it: in a data folder, its writes are durable when this resolves. */
  withDatabase<Result>(work: (database: Database) => Promise<Result>): Promise<Result>
}

/** Two: a transaction, and what is asked beside it. */
const connectionsMax = 2

export function addDatabaseOptions(command: Command): Command {
  return command
    .option('--data <folder>', 'the data folder of a `sluice up` that is stopped')
    .option('--config <file>', 'the TOML file of `sluice api`, or with --data that of `sluice up` (default: none)')
}

/** @throws ToolError, OptionsError, DataFolderInUseError, ControlPlaneStartError …: faults that the operator can fix */
export async function withControlPlane<Result>(
  flags: DatabaseFlags,
  sources: typeof readSources,
  work: (site: ControlPlaneSite) => Promise<Result>,
): Promise<Result> {
  return explained(async () => {
    try {
      return await (flags.data === undefined ? onServer(flags, sources, work) : inFolder(flags.data, flags, sources, work))
    } catch (error) {
      // OpenFGA's own words say what is wrong with it.
      if (error instanceof HttpError)
        throw new ToolError(`${error.message}: ${(error.cause as Error | undefined)?.message ?? ''}`, { cause: error })
      throw error
    }
  })
}

async function onServer<Result>(
  { config }: DatabaseFlags,
  sources: typeof readSources,
  work: (site: ControlPlaneSite) => Promise<Result>,
): Promise<Result> {
  if (config === undefined && process.env['SVC_DATABASE_URL'] === undefined && process.env['SVC_DATABASE_URL_FILE'] === undefined) {
    throw new ToolError(
      'say which control plane: with --data <folder> that of a stopped `sluice up`, or else with the options of `sluice api`, SVC_DATABASE_URL first',
    )
  }
  const { loadApiOptions } = await import('../api-options.ts')
  const options = loadApiOptions(await sources(config))
  return work({
    options,
    masterKeys: async () => parseMasterKeys(options.masterKey, 'SVC_MASTER_KEY'),
    folder: undefined,
    logger: openLogger(options.logging),
    async withDatabase(use) {
      const database = await openServer({ url: options.database.url, applicationName: 'sluice-tool', connectionsMax })
      try {
        await assertUpToDate(database)
        return await use(database)
      } finally {
        await database.close()
      }
    },
  })
}

async function inFolder<Result>(
  path: string,
  { config }: DatabaseFlags,
  sources: typeof readSources,
  work: (site: ControlPlaneSite) => Promise<Result>,
): Promise<Result> {
  const { loadUpOptions } = await import('../../up-options.ts')
  const upOptions = loadUpOptions(await sources(config, { data: { folder: path } }))
  const options = { ...upOptions, policies: { store: 'relational' } } as const
  // Before it is opened, which would make it.
  if (!existsSync(join(path, databaseFolder))) throw new ToolError(`no data of a \`sluice up\` in ${path}: name its folder with --data`)
  const folder = await openDataFolder(path)
  const logger = openLogger(options.logging)
  try {
    return await work({
      options,
      async masterKeys() {
        const text = await readSecretFile(masterKeyFile(folder))
        if (text === undefined) throw new ToolError(`${masterKeyFile(folder)} is gone: put it back from a copy of the data folder`)
        return parseMasterKeys(text, masterKeyFile(folder))
      },
      folder,
      logger,
      async withDatabase(use) {
        const closings: (() => Promise<void>)[] = []
        try {
          const database = await openFolderDatabase(folder, logger, close => void closings.push(close))
          await assertUpToDate(database)
          return await use(database)
        } finally {
          for (const close of closings) await close()
        }
      },
    })
  } finally {
    await folder.close()
  }
}

/** For commands that only add rights: processes that cache grants are not notified. */
export function writesOf(database: Database, policies: PolicyStore, { options, logger }: ControlPlaneSite): Writes {
  return openWrites({ policies, audit: openAuditLog(database, options.audit), changes: openChanges(logger) })
}
