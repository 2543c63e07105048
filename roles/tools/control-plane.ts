// Opens the control plane's database for operator commands: on a server, with the options of `./sluice api`, or in the data folder of a
// stopped `./sluice up`.

import type { Command } from 'commander'
import { ToolError } from '../../bin/streams.ts'
import type { DataFolder } from '../../config/data-folder.ts'
import { type Logger, openLogger } from '../../config/logger.ts'
import { type MasterKeys, parseMasterKeys, readSecretFile } from '../../config/secrets.ts'
import { openAccessChanges } from '../../control-plane/access-changes.ts'
import { openAuditLog } from '../../control-plane/audit/store.ts'
import { assertUpToDate } from '../../control-plane/installation.ts'
import type { ControlPlaneOptions } from '../../control-plane/options.ts'
import type { PolicyStore } from '../../control-plane/policies/policy-store.ts'
import { openWrites, type Writes } from '../../control-plane/writes.ts'
import type { Database } from '../../database/database.ts'
import { openServer } from '../../database/server.ts'
import { HttpError } from '../../http/errors.ts'
import { masterKeyFile, openFolderDatabase } from '../folder-database.ts'
import type { sources as readSources } from '../roles.ts'
import { explained } from './failure.ts'

export interface DatabaseFlags {
  readonly config?: string
  readonly data?: string
}

export interface ControlPlaneTarget {
  readonly options: ControlPlaneOptions
  /** The master keys of the instances. Read again on each call: in a data folder they change. */
  masterKeys(): Promise<MasterKeys>
  /** The locked data folder; undefined on a server. */
  readonly folder: DataFolder | undefined
  readonly logger: Logger
  /** Opens the database for `work`, and closes it: in a data folder, its writes are durable when this resolves. */
  withDatabase<Result>(work: (database: Database) => Promise<Result>): Promise<Result>
}

/** One for a transaction, one for other queries. */
const connectionsMax = 2

export function addDatabaseOptions(command: Command): Command {
  return command
    .option('--data <folder>', 'the data folder of a stopped `./sluice up`')
    .option('--config <file>', 'the TOML file of `./sluice api`, or with --data that of `./sluice up` (default: none)')
}

/** @throws ToolError, OptionsError, DataFolderInUseError, ControlPlaneStartError …: faults that the operator can fix */
export async function withControlPlane<Result>(
  flags: DatabaseFlags,
  sources: typeof readSources,
  work: (target: ControlPlaneTarget) => Promise<Result>,
): Promise<Result> {
  return explained(async () => {
    try {
      return await (flags.data === undefined ? onServer(flags, sources, work) : inFolder(flags.data, flags, sources, work))
    } catch (error) {
      // OpenFGA's own message says what is wrong.
      if (error instanceof HttpError)
        throw new ToolError(`${error.message}: ${(error.cause as Error | undefined)?.message ?? ''}`, { cause: error })
      throw error
    }
  })
}

async function onServer<Result>(
  { config }: DatabaseFlags,
  sources: typeof readSources,
  work: (target: ControlPlaneTarget) => Promise<Result>,
): Promise<Result> {
  if (config === undefined && process.env['SVC_DATABASE_URL'] === undefined && process.env['SVC_DATABASE_URL_FILE'] === undefined) {
    throw new ToolError(
      'no control plane given: use --data <folder> for a stopped `./sluice up`, or the options of `./sluice api`, such as SVC_DATABASE_URL',
    )
  }
  const { apiOptions, loadApiOptions } = await import('../api/options.ts')
  const options = loadApiOptions(await sources(apiOptions, config))
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
  work: (target: ControlPlaneTarget) => Promise<Result>,
): Promise<Result> {
  const { openStoppedPlatform } = await import('./target/folder.ts')
  const { options, folder, logger } = await openStoppedPlatform(path, config, sources)
  try {
    return await work({
      options,
      async masterKeys() {
        const text = await readSecretFile(masterKeyFile(folder))
        if (text === undefined) throw new ToolError(`${masterKeyFile(folder)} is missing: restore it from a backup of the data folder`)
        return parseMasterKeys(text, masterKeyFile(folder))
      },
      folder,
      logger,
      async withDatabase(use) {
        const cleanup: (() => Promise<void>)[] = []
        try {
          const database = await openFolderDatabase(folder, logger, close => void cleanup.push(close))
          await assertUpToDate(database)
          return await use(database)
        } finally {
          for (const close of cleanup) await close()
        }
      },
    })
  } finally {
    await folder.close()
  }
}

/** For commands that only add rights: processes with cached grants are not notified. */
export function writesOf(database: Database, policies: PolicyStore, { options, logger }: ControlPlaneTarget): Writes {
  return openWrites({ policies, audit: openAuditLog(database, options.audit), accessChanges: openAccessChanges(logger) })
}
