// The dead letters, replays and audits of `sluice up`: the same parts as of the tools, on the logs and the database that the process has open.

import type { HttpServer } from '../../config/http/server.ts'
import { type Database, DatabaseError } from '../../config/postgres/database.ts'
import { auditRoutes } from '../../pipeline/audit/routes.ts'
import { trace } from '../../pipeline/audit/trace.ts'
import { verify } from '../../pipeline/audit/verify.ts'
import { openDecoder } from '../../pipeline/decode.ts'
import { type EmbeddedLog, openEmbeddedSource } from '../../pipeline/embedded-log/index.ts'
import { openEmbeddedTopicReader } from '../../pipeline/embedded-log/topic-reader.ts'
import { openLetters } from '../../pipeline/letters/letters.ts'
import { letterRoutes } from '../../pipeline/letters/routes.ts'
import { replaying } from '../../pipeline/replays.ts'
import { subjectFilter } from '../../pipeline/subject-filter.ts'
import { openWriter, type Writer, type WriterParts } from '../../pipeline/writer.ts'
import { openAudit } from '../../sinks/postgres/audit.ts'
import type { Sink } from '../../sinks/sink.ts'

/** The topics of one writer. */
export interface WriterLogs {
  readonly messages: EmbeddedLog
  readonly letters: EmbeddedLog
  readonly replays: EmbeddedLog
}

/** Replays are few: a small share of what the flow of messages takes. */
const runBytesMax = 256 * 1024
const runMessagesMax = 100
/** Of the five seconds that a stop of the process may take; what is not stored then stays in the log of replays. */
const drainMsMax = 500

/** The flow of replays: a writer like that of the messages, on a sink of its own. Closed after it has stopped: its source and its sink. */
export function openReplayWriter<Encoded>(
  logs: WriterLogs,
  sink: Sink<Encoded>,
  parts: Omit<WriterParts<Encoded>, 'source' | 'sink' | 'drainMsMax'>,
): { readonly writer: Writer; close(): Promise<void> } {
  const source = openEmbeddedSource({
    log: logs.replays,
    consumer: parts.name,
    startAt: partitions => sink.positions!(partitions),
    runBytesMax,
    runMessagesMax,
  })
  const { transformer, deadLetters } = parts
  const writer = openWriter({ ...parts, sink, drainMsMax, ...replaying({ source, transformer, deadLetters, logNumber: sink.logNumber }) })
  return {
    writer,
    async close() {
      await writer.stop()
      await source.close()
    },
  }
}

export interface AdministrationParts {
  readonly logs: WriterLogs
  readonly database: Database
  readonly writer: Writer
  readonly transformer: WriterParts<unknown>['transformer']
  readonly options: Pick<WriterParts<unknown>['options'], 'message' | 'subscriber'>
  readonly isAdministrator: (token: string) => Promise<boolean | undefined>
}

/** What `sluice dlq | verify | trace --url` asks. */
export function administrationRoutes(parts: AdministrationParts): (app: HttpServer) => Promise<void> {
  const { logs, database, writer, transformer, options, isAdministrator } = parts
  const reader = openEmbeddedTopicReader(logs.messages, 'dead-letter')
  const [lettersReader, replaysReader] = [openEmbeddedTopicReader(logs.letters), openEmbeddedTopicReader(logs.replays)]
  const letters = openLetters({ reader: lettersReader, log: logs.letters, replays: async () => logs.replays })
  const audit = openAudit(database)
  const decoder = openDecoder({ transformer, subscribed: subjectFilter(options.subscriber.subjects), message: options.message })
  const administration = { isAdministrator, isStoreAway: (error: unknown) => error instanceof DatabaseError && error.transient }
  const trouble = (): string | undefined =>
    writer.state() === 'running' ? undefined : (writer.failure()?.message ?? `the writer is ${writer.state()}`)

  return async app => {
    await app.register(letterRoutes(letters, administration))
    await app.register(
      auditRoutes(
        {
          verify: () => verify({ reader, audit, decoder, lettersOf: async () => lettersReader, replaysOf: async () => replaysReader }),
          trace: id => trace({ id, reader, audit, decoder, lettersOf: async () => letters, trouble }),
        },
        administration,
      ),
    )
  }
}
