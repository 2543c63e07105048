// The data folder of a stopped `./sluice up` as a target of the tools: its log, its dead letters and its store.

import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { ToolError } from '../../../bin/streams.ts'
import { type DataFolder, openDataFolder } from '../../../config/data-folder.ts'
import { type Logger, openLogger } from '../../../config/logger.ts'
import { openLogFile } from '../../../pipeline/embedded-log/file.ts'
import { openEmbeddedTopicReader } from '../../../pipeline/embedded-log/topic-reader.ts'
import { deadLettersTopic } from '../../../pipeline/writer/dead-letters.ts'
import { openDecoder } from '../../../pipeline/writer/decode.ts'
import { subjectFilter } from '../../../pipeline/writer/subject-filter.ts'
import { openAudit } from '../../../sinks/postgres/audit.ts'
import { configuredTransformer } from '../../../transformers/select.ts'
import { loadUpOptions, type UpOptions, upOptions } from '../../../up-options.ts'
import { databaseFolder, folderTopic, folderWriter, logPath, openFolderDatabase } from '../../folder-database.ts'
import type { Sources } from './flags.ts'
import type { Target } from './target.ts'

export interface StoppedPlatform {
  readonly options: UpOptions
  /** Locked until it is closed. */
  readonly folder: DataFolder
  readonly logger: Logger
}

/** @throws ToolError, OptionsError, DataFolderInUseError, DataFolderError */
export async function openStoppedPlatform(path: string, config: string | undefined, sources: Sources): Promise<StoppedPlatform> {
  const options = loadUpOptions(await sources(upOptions, config, { data: { folder: path } }))
  // Checked first, because opening would create it.
  if (!existsSync(join(path, databaseFolder)))
    throw new ToolError(`${path} is not the data folder of a \`./sluice up\`: give that folder with --data`)
  return { options, folder: await openDataFolder(path), logger: openLogger(options.logging) }
}

type FolderTarget = Pick<Target, 'topics' | 'openTopic' | 'openDeadLettersTopic' | 'openAudit' | 'decoder' | 'writer' | 'close'>

/** @throws as `openStoppedPlatform`, DamagedDatabaseError and SystemicError */
export async function openFolderTarget(path: string, config: string | undefined, sources: Sources): Promise<FolderTarget> {
  const { options, folder, logger } = await openStoppedPlatform(path, config, sources)
  const cleanup: (() => Promise<void>)[] = [() => folder.close()]
  const close = async (): Promise<void> => {
    for (const closing of cleanup.toReversed()) await closing()
  }
  const openTopic = (name: string, damaged: 'error' | 'dead-letter') => {
    const file = openLogFile(logPath(folder, name), name, 0)
    cleanup.push(async () => file.database.close())
    return openEmbeddedTopicReader({ name, id: file.id, file }, damaged)
  }
  try {
    const database = await openFolderDatabase(folder, logger, closing => void cleanup.push(closing))
    const [topic, deadLetters] = [openTopic(folderTopic, 'dead-letter'), openTopic(deadLettersTopic(folderTopic, folderWriter), 'error')]
    return {
      topics: async () => [folderTopic],
      openTopic: async () => topic,
      openDeadLettersTopic: async () => deadLetters,
      openAudit: async () => openAudit(database),
      decoder: () =>
        openDecoder({
          transformer: configuredTransformer(options),
          subscribed: subjectFilter(options.subscriber.subjects),
          message: options.message,
        }),
      writer: folderWriter,
      close,
    }
  } catch (error) {
    await close()
    throw error
  }
}
