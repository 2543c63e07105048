// Routes of `./sluice up` for dead letters, replays, audits and erasures: the code of the tools, on the process's open logs and database.

import type { Logger } from '../../config/logger.ts'
import { type Database, DatabaseError } from '../../database/database.ts'
import type { HttpServer } from '../../http/server.ts'
import type { Administration } from '../../pipeline/administration.ts'
import { auditRoutes } from '../../pipeline/audit/routes.ts'
import { trace } from '../../pipeline/audit/trace.ts'
import { verify } from '../../pipeline/audit/verify.ts'
import type { DeadLetterFilter } from '../../pipeline/dead-letters/filter.ts'
import { openDeadLetterQueue } from '../../pipeline/dead-letters/queue.ts'
import { type ReplayReport, replay } from '../../pipeline/dead-letters/replay.ts'
import { deadLetterRoutes } from '../../pipeline/dead-letters/routes.ts'
import type { EmbeddedLog } from '../../pipeline/embedded-log/log.ts'
import { openEmbeddedTopicReader } from '../../pipeline/embedded-log/topic-reader.ts'
import { type EraseReport, erase } from '../../pipeline/erase/erase.ts'
import { eraseRoutes } from '../../pipeline/erase/routes.ts'
import { openJob } from '../../pipeline/job.ts'
import type { LogRetention } from '../../pipeline/log.ts'
import { openDecoder } from '../../pipeline/writer/decode.ts'
import { subjectFilter } from '../../pipeline/writer/subject-filter.ts'
import type { Writer, WriterParts } from '../../pipeline/writer/writer.ts'
import type { AuditedLog } from '../../sinks/audit.ts'
import type { ErasureFilter } from '../../sinks/erasure.ts'
import { openAudit } from '../../sinks/postgres/audit.ts'
import { openErasure } from '../../sinks/postgres/erase.ts'
import type { SinkOptions } from '../../sinks/postgres/options.ts'
import { openReplaySink } from '../../sinks/postgres/sink.ts'

export interface AdministrationParts extends Omit<Administration, 'isStoreAway'> {
  readonly log: EmbeddedLog
  readonly deadLetters: EmbeddedLog
  /** Of the log. */
  readonly retention: LogRetention
  readonly database: Database
  readonly writer: Writer
  /** The writer's name. */
  readonly writerName: string
  readonly transformer: WriterParts<unknown>['transformer']
  readonly options: Pick<WriterParts<unknown>['options'], 'message' | 'subscriber'> & { readonly store: SinkOptions }
  readonly logger: Logger
}

export interface AdministrationRoutes {
  /** The routes that `./sluice dlq | verify | trace | erase --url` calls. */
  readonly routes: (app: HttpServer) => Promise<void>
  /** Aborts a running replay or erasure; the next one resumes it. */
  close(): Promise<void>
}

export function openAdministration(parts: AdministrationParts): AdministrationRoutes {
  const { log, retention, database, writer, writerName, transformer, options, isAdministrator, userOf, note, logger } = parts
  const reader = openEmbeddedTopicReader(log, 'dead-letter')
  const deadLettersReader = openEmbeddedTopicReader(parts.deadLetters)
  const deadLetters = openDeadLetterQueue({ reader: deadLettersReader, log: parts.deadLetters })
  const audit = openAudit(database)
  const decoder = openDecoder({ transformer, subscribed: subjectFilter(options.subscriber.subjects), message: options.message })
  const replayParts = {
    reader: deadLettersReader,
    log: parts.deadLetters,
    decoder,
    audit,
    sinkOf: (logNumber: number) => openReplaySink({ database, options: options.store, writer: writerName, logNumber }),
    topic: log.name,
    writer: writerName,
  }
  const replays = openJob<DeadLetterFilter, ReplayReport>({
    what: 'a replay',
    run: (filter, replayOptions) => replay(replayParts, filter, replayOptions),
    summaryOf: ({ replayed, left }) => ({ replayed, left }),
    logger,
  })
  const erasedTopic = {
    topic: reader,
    retention,
    deadLetters: { reader: deadLettersReader, log: parts.deadLetters, retention: { isCompacted: false } },
  }
  const eraseParts = {
    store: openErasure(database),
    audit,
    topicOf: async (known: AuditedLog) => (known.id === log.id ? erasedTopic : undefined),
  }
  const erasures = openJob<ErasureFilter, EraseReport>({
    what: 'an erasure',
    run: (filter, eraseOptions) => erase(eraseParts, filter, eraseOptions),
    summaryOf: ({ id, rows, dead_letters }) => ({ id, rows, dead_letters }),
    logger,
  })
  const administration = {
    isAdministrator,
    userOf,
    note,
    isStoreAway: (error: unknown) => error instanceof DatabaseError && error.transient,
  }
  const trouble = (): string | undefined =>
    writer.state() === 'running' ? undefined : (writer.failure()?.message ?? `the writer is ${writer.state()}`)

  return {
    async routes(app) {
      await app.register(deadLetterRoutes(deadLetters, replays, administration))
      await app.register(eraseRoutes(erasures, () => audit.erasures(), administration))
      await app.register(
        auditRoutes(
          {
            verify: contents =>
              verify({ reader, audit, writer: writerName, decoder, deadLettersOf: async () => deadLettersReader, contents }),
            trace: id => trace({ id, reader, audit, writer: writerName, decoder, deadLettersOf: async () => deadLetters, trouble }),
          },
          administration,
        ),
      )
    },
    async close() {
      await Promise.all([replays.close(), erasures.close()])
    },
  }
}
