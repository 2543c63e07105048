// The role `up`: every part in one process, on embedded defaults, wired together and stopped in order.
//
// Longer than most files: the wiring is one story, in which order the parts open and so in which order they close.

import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { collectDefaultMetrics, Registry } from 'prom-client'
import { openDataFolder } from './config/data-folder.ts'
import { healthRoutes } from './config/http/health.ts'
import { silent } from './config/http/health-checks.ts'
import { closeServer, listen } from './config/http/listen.ts'
import { warnOfCompatibility } from './config/http/older-clients.ts'
import { openapiRoutes } from './config/http/openapi.ts'
import { createServer } from './config/http/server.ts'
import { type Logger, openLogger } from './config/logger.ts'
import { openOutages } from './config/outage.ts'
import type { Database } from './config/postgres/database.ts'
import { aborted, type ProcessScope, runProcess } from './config/run-process.ts'
import { deriveKey, type MasterKeys, openMasterKeys, readSecretFile, SecretError } from './config/secrets.ts'
import { readServerTls } from './config/tls-files.ts'
import { cacheAccess } from './control-plane/access-cache.ts'
import { type FirstAdministrator, makeFirstAdministrator } from './control-plane/first-administrator.ts'
import { isInstalled, openControlPlane } from './control-plane/index.ts'
import { openDeadLetters } from './pipeline/dead-letters.ts'
import { openDecoder } from './pipeline/decode.ts'
import { openEmbeddedLog, openEmbeddedSource } from './pipeline/embedded-log/index.ts'
import { openIngestMetrics } from './pipeline/ingest/metrics.ts'
import { ingestRoutes } from './pipeline/ingest/routes.ts'
import { embeddedLiveTopic } from './pipeline/live/embedded.ts'
import { openLiveMessages } from './pipeline/live/live.ts'
import { pipelineMetrics } from './pipeline/metrics.ts'
import { memoryBytesMax } from './pipeline/options.ts'
import { deadLettersTopic, replaysTopic } from './pipeline/replays.ts'
import { subjectFilter } from './pipeline/subject-filter.ts'
import { openWriter, type WriterDependency } from './pipeline/writer.ts'
import { openCursors } from './readers/cursor.ts'
import { liveRoutes } from './readers/live/routes.ts'
import { openPostgresReader } from './readers/postgres/reader.ts'
import { recordKeysOf } from './readers/record-keys.ts'
import { readerRoutes } from './readers/routes.ts'
import { masterKeyFile, openFolderDatabase } from './roles/folder-database.ts'
import { openReaderMetrics } from './roles/reader-metrics.ts'
import { administrationRoutes, openReplayWriter } from './roles/tools/in-process.ts'
import { maintain } from './sinks/postgres/schema.ts'
import { openSink } from './sinks/postgres/sink.ts'
import { openTransformer } from './transformers/select.ts'
import type { UpOptions } from './up-options.ts'

/** The writer of `up`, its consumer in the log, and the first part of its dead letters' topic. */
const writerName = 'relational'
const topic = 'messages'
/** A grant is dropped at once when it ends; this is the net below. */
const accessLifetimeMs = 5_000
const accessEntriesMax = 100_000
/** Of the five seconds that a stop may take: for requests under way, and then for what the writer has taken. */
const requestDrainMsMax = 1_500
const writerDrainMsMax = 2_000
const maintenanceIntervalMs = 6 * 3600 * 1000

/**
 * Starts the platform, prints where it is ready, and resolves when it has stopped after a signal, with everything it took stored.
 *
 * @throws ListenError, DataFolderInUseError, DamagedDatabaseError, SystemicError …: what a person can mend, with a message that says how
 */
export async function up(options: UpOptions, version: string): Promise<void> {
  const logger = openLogger(options.logging)
  await runProcess(logger, scope => serve(options, version, logger, scope))
}

/** Opens every part, in the order in which they need each other, and resolves when the platform is to stop. */
async function serve(options: UpOptions, version: string, logger: Logger, { signal, closeLater }: ProcessScope): Promise<void> {
  const folder = await openDataFolder(options.data.folder)
  closeLater(() => folder.close())
  const database = await openFolderDatabase(folder, logger, closeLater)
  const masterKeys = await openKeys(masterKeyFile(folder), database)
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })

  const outages = openOutages(logger, registry, writerName, {
    log: 'the embedded log',
    store: 'the embedded database',
    dead_letters: 'the embedded log of dead letters',
  })

  for (const warning of options.provisioning.warnings) logger.warn(warning)
  const planeOptions = { ...options, policies: { store: 'relational' } } as const
  const controlPlane = await openControlPlane({ database, masterKeys, options: planeOptions, logger, registry })
  closeLater(() => controlPlane.close())

  const logFolder = join(folder.path, 'log')
  await mkdir(logFolder, { recursive: true, mode: 0o700 })
  const openLog = (name: string, dependency: WriterDependency): ReturnType<typeof openEmbeddedLog> =>
    openEmbeddedLog({
      path: join(logFolder, `${name}.sqlite`),
      name,
      queueBytesMax: options.log.queueBytes,
      fileBytesMax: options.log.fileBytes,
      retentionMs: options.log.retentionHours * 3600 * 1000,
      outage: outages.report(dependency),
      logger,
    })
  const log = openLog(topic, 'log')
  closeLater(() => log.close())
  const deadLetterLog = openLog(deadLettersTopic(topic, writerName), 'dead_letters')
  closeLater(() => deadLetterLog.close())
  const replayLog = openLog(replaysTopic(topic, writerName), 'log')
  closeLater(() => replayLog.close())
  const logs = { messages: log, letters: deadLetterLog, replays: replayLog }

  const openSinkOf = ({ name, id }: typeof log): ReturnType<typeof openSink> =>
    openSink({ database, options: options.store, logName: name, logId: id, writer: writerName, acceptNewLog: options.log.acceptNew })
  const sink = await openSinkOf(log)
  closeLater(() => sink.close())
  const replaySink = await openSinkOf(replayLog)
  closeLater(() => replaySink.close())
  const maintenance = setInterval(() => {
    maintain(database, options.store).catch((error: unknown) => logger.error({ err: error }, 'months of the messages table cannot be made'))
  }, maintenanceIntervalMs)
  closeLater(async () => clearInterval(maintenance))

  const source = openEmbeddedSource({
    log,
    consumer: writerName,
    startAt: partitions => sink.positions!(partitions),
    runBytesMax: options.log.fetchBytes,
    runMessagesMax: options.log.fetchMessages,
    damaged: 'dead-letter',
    acceptLost: options.log.acceptLost,
    onLost: (partition, messages) => writer.lost(partition, messages),
  })
  closeLater(() => source.close())
  const transformer = openTransformer(
    options.transformer,
    { timeMinUs: options.message.earliestSeconds * 1e6, timeAheadMaxUs: options.message.aheadDays * 86_400e6 },
    { payloadBytesMax: options.message.payloadBytes },
  )
  const deadLetters = openDeadLetters({ log: deadLetterLog, topic, logNumber: sink.logNumber, writer: writerName })
  const writerParts = { transformer, deadLetters, options, drainMsMax: writerDrainMsMax, outages, logger }
  const writer = openWriter({ ...writerParts, name: writerName, source, sink, metrics: pipelineMetrics(registry, writerName) })
  closeLater(() => writer.stop())
  const replayName = `${writerName}.replays`
  const replays = openReplayWriter(logs, replaySink, { ...writerParts, name: replayName, metrics: pipelineMetrics(registry, replayName) })
  closeLater(() => replays.close())
  // Before anything listens: a log that does not hold what the store needs next ends the start.
  await Promise.race([Promise.all([writer.started, replays.writer.started]), aborted(signal)])
  if (signal.aborted) return

  const reader = openPostgresReader({ database })
  closeLater(() => reader.close())
  const decoder = { transformer, subscribed: subjectFilter(options.subscriber.subjects), message: options.message }
  const live = openLiveMessages({ topic: embeddedLiveTopic(log), decoder, outage: outages.report('log'), logger })
  closeLater(() => live.close())
  const access = cacheAccess(controlPlane.access, { lifetimeMs: accessLifetimeMs, entriesMax: accessEntriesMax })
  closeLater(async () => access.close())

  warnOfCompatibility(options.compatibility, logger)
  let ready = false
  const tls = await readServerTls('http', options.http)
  const app = createServer({
    logger,
    ...options.http,
    tls: tls && { ...tls, asksForCertificate: options.ingest.clientCertificates === 'tls' },
    compatibility: options.compatibility,
  })
  openapiRoutes(app, { version })
  healthRoutes(app, {
    version,
    registry,
    ready: () => ready && writer.state() === 'running',
    checks: {
      database: silent(() => controlPlane.check()),
      log: silent(() => log.check()),
      reader: silent(() => reader.check()),
      writer: async () => {
        if (writer.state() === 'running') return 'running'
        throw writer.failure() ?? new Error(`the writer is ${writer.state()}`)
      },
    },
  })
  app.register(controlPlane.routes)
  app.register(
    ingestRoutes({
      log,
      logLabel: () => String(sink.logNumber),
      access,
      metrics: openIngestMetrics(registry),
      options: options.ingest,
      decoder: openDecoder({ ...decoder, subscribed: () => true }),
    }),
  )
  const readerMetrics = openReaderMetrics(registry)
  const cursors = openCursors(deriveKey(masterKeys[0], 'cursors'))
  app.register(async watched => {
    readerMetrics.watch(watched)
    await watched.register(
      readerRoutes({
        reader: readerMetrics.timed(reader),
        access,
        cursors,
        options: options.reader,
        keys: recordKeysOf(options.compatibility),
      }),
    )
  })
  const placeKey = deriveKey(masterKeys[0], 'live places')
  app.register(async watched => {
    readerMetrics.watchStreams(watched)
    await watched.register(liveRoutes({ live, access, placeKey, options: options.live, metrics: readerMetrics.live, logger }))
  })
  const isAdministrator = (token: string): Promise<boolean | undefined> => controlPlane.isAdministrator(token)
  app.register(administrationRoutes({ logs, database, writer, transformer, options, isAdministrator }))
  closeLater(() => closeServer(app, requestDrainMsMax))

  const url = await listen(app, options.http)
  closeLater(async () => {
    ready = false
  })
  // Behind the port, so that a start that fails there has made nobody whom the next one would not name.
  const administrator = await makeFirstAdministrator(controlPlane, options.admin, join(folder.path, 'admin-password'))
  ready = true
  logger.info({ url, data: folder.path, memory_bytes_max: memoryBytesMax(options), version }, 'ready')
  if (administrator !== undefined) printFirstSteps(url, administrator)
  console.log(`ready on ${url}`)
  await Promise.race([aborted(signal), writer.done, replays.writer.done])
}

/** The master keys; a new one only for a database that nothing was written in under another. */
async function openKeys(path: string, database: Database): Promise<MasterKeys> {
  if ((await readSecretFile(path)) === undefined && (await isInstalled(database))) {
    throw new SecretError(`${path} is gone, and what the database holds was written under it: put it back from a copy of the data folder`)
  }
  return openMasterKeys(path)
}

/** What a person does next, as commands that work when pasted. A password is shown on a terminal only. */
function printFirstSteps(url: string, { email, generated }: FirstAdministrator): void {
  const json = `-H 'Content-Type: application/json'`
  if (generated === undefined) console.log(`administrator ${email}, with the password that was given`)
  else if (process.stdout.isTTY) console.log(`administrator ${email}, password ${generated.password} (also in ${generated.path})`)
  else console.log(`administrator ${email}, password in ${generated.path}`)
  console.log(`
next, in another terminal: simulated devices that publish, and a reader that follows them
  npm run demo -- --url ${url}

or step by step: a user, a token, and then the tour in README.md
  curl -X POST ${url}/users ${json} -d '{"email":"ann@example.com","password":"correct horse battery"}'
  curl -X POST ${url}/tokens ${json} -d '{"email":"ann@example.com","password":"correct horse battery"}'
  curl ${url}/health
`)
}
