// The role `up`: opens all components in one process, with the embedded log and database, and stops them in order.
//
// Longer than most files, because the order in which components open and close is easier to follow in one place.

import { mkdir } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { Registry } from 'prom-client'
import { aborted } from './config/aborting.ts'
import { openDataFolder } from './config/data-folder.ts'
import { type Logger, openLogger } from './config/logger.ts'
import { dependenciesIn, openOutages } from './config/outage.ts'
import { type ProcessScope, runProcess } from './config/run-process.ts'
import { deriveKey, type MasterKeys, openMasterKeys, readSecretFile, SecretError } from './config/secrets.ts'
import { consoleRoutes, readConsolePage } from './console/console.ts'
import { openUpConsole, upConsoleLinks } from './console/up-console.ts'
import { cacheAccess } from './control-plane/access/cache.ts'
import { type FirstAdministrator, makeFirstAdministrator } from './control-plane/first-administrator.ts'
import { isInstalled, openControlPlane } from './control-plane/index.ts'
import { type Database, DatabaseError } from './database/database.ts'
import { openFailingDatabase } from './database/failing-database.ts'
import { countRefusals } from './http/error-answer.ts'
import { healthRoutes } from './http/health/health.ts'
import { homeRoute } from './http/home.ts'
import { closeServer, listen } from './http/listen.ts'
import { isBoundToLoopback, isLoopback } from './http/listen-address.ts'
import { warnOfCompatibility } from './http/older-clients.ts'
import { openapiRoutes } from './http/openapi/openapi.ts'
import { createServer } from './http/server.ts'
import { readServerTls } from './http/tls-files.ts'
import type { Administration } from './pipeline/administration.ts'
import { openCompactedFile } from './pipeline/compacted-file.ts'
import type { OpenCompactedTopic } from './pipeline/compacted-topic.ts'
import { openEmbeddedLog } from './pipeline/embedded-log/log.ts'
import { logMetrics } from './pipeline/embedded-log/metrics.ts'
import { openEmbeddedSource } from './pipeline/embedded-log/source.ts'
import { openEmbeddedTopicReader } from './pipeline/embedded-log/topic-reader.ts'
import { brokerRoutes } from './pipeline/ingest/brokers/routes.ts'
import { openIngestMetrics } from './pipeline/ingest/metrics.ts'
import { openPublisher } from './pipeline/ingest/publisher.ts'
import { ingestRoutes } from './pipeline/ingest/routes.ts'
import { readerOfAppends } from './pipeline/live/appends.ts'
import { openLiveMessages } from './pipeline/live/live.ts'
import { memoryBytesMax } from './pipeline/memory.ts'
import { mqttConnectionsIn } from './pipeline/mqtt/metrics.ts'
import { openRetained } from './pipeline/mqtt/retained/store.ts'
import { openSessions } from './pipeline/mqtt/sessions/store.ts'
import { deadLettersTopic, openDeadLetters } from './pipeline/writer/dead-letters.ts'
import { openDecoder } from './pipeline/writer/decode.ts'
import { pipelineMetrics } from './pipeline/writer/metrics.ts'
import { openRestartingWriter } from './pipeline/writer/restarting-writer.ts'
import { subjectFilter } from './pipeline/writer/subject-filter.ts'
import { openWriter, type WriterDependency } from './pipeline/writer/writer.ts'
import { recordKeysOf } from './readers/answers/record-keys.ts'
import { liveRoutes } from './readers/live/routes.ts'
import { openPostgresReader } from './readers/postgres/reader.ts'
import { readerRoutes } from './readers/routes.ts'
import { folderCheck } from './roles/checks.ts'
import { logPath, masterKeyFile, openFolderDatabase, folderTopic as topic, folderWriter as writerName } from './roles/folder-database.ts'
import { openMqtt } from './roles/mqtt.ts'
import { processMetrics } from './roles/process-metrics.ts'
import { openReaderMetrics } from './roles/reader/metrics.ts'
import { openAdministration } from './roles/tools/admin-routes.ts'
import { openAudit } from './sinks/postgres/audit.ts'
import { maintain } from './sinks/postgres/schema.ts'
import { openSink } from './sinks/postgres/sink.ts'
import type { Positions } from './sinks/sink.ts'
import { configuredTransformer } from './transformers/select.ts'
import type { UpOptions } from './up-options.ts'

/** A safety net: a revoked grant is dropped from the cache at once. */
const accessLifetimeMs = 5_000
const accessEntriesMax = 100_000
/** Parts of the time that a stop may take: for running requests, and then for messages that the writer has read. */
const requestDrainMsMax = 1_500
const writerDrainMsMax = 2_000
/** They take turns piece by piece on its one connection, so more would only wait for each other. */
const embeddedQueriesAtOnce = 4
const maintenanceIntervalMs = 6 * 3600 * 1000

/**
 * Starts the platform, prints its address, and resolves when it has stopped after a signal and stored every accepted message.
 *
 * @throws ListenError, DataFolderInUseError, DamagedDatabaseError, SystemicError …: errors that an operator can fix, with a message that says how
 */
export async function up(options: UpOptions, version: string): Promise<void> {
  const logger = openLogger(options.logging)
  await runProcess(logger, options.process, scope => serve(options, version, logger, scope))
}

/** Opens every component in order of dependency, and resolves when the platform should stop. */
async function serve(options: UpOptions, version: string, logger: Logger, { signal, closeLater }: ProcessScope): Promise<void> {
  const folder = await openDataFolder(options.data.folder)
  closeLater(() => folder.close())
  await folderCheck(folder.path).run(sentence => logger.warn(sentence))
  const database = await openFolderDatabase(folder, logger, closeLater)
  const masterKeys = await openKeys(masterKeyFile(folder), database)
  const registry = new Registry()
  processMetrics(registry)

  const outages = openOutages(logger, registry, writerName, {
    log: 'the embedded log',
    store: 'the embedded database',
    dead_letters: 'the embedded log of dead letters',
  })

  for (const warning of options.provisioning.warnings) logger.warn(warning)
  // Who reaches a loopback address is no stranger, unless a proxy forwards others. What a host name stands for is known once the server listens.
  const strangersReach = (): boolean => !isBoundToLoopback(app.server) || options.http.trustedProxies.length > 0
  const controlPlane = await openControlPlane({ database, masterKeys, options, strangersReach, logger, registry })
  closeLater(() => controlPlane.close())

  await mkdir(dirname(logPath(folder, topic)), { recursive: true, mode: 0o700 })
  const openLog = (name: string, dependency: WriterDependency): ReturnType<typeof openEmbeddedLog> =>
    openEmbeddedLog({
      path: logPath(folder, name),
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
  logMetrics(registry, { log: log.file, dead_letters: deadLetterLog.file })

  const store = openFailingDatabase(database)
  const sink = await openSink({
    database: options.demo ? store : database,
    options: options.store,
    logs: [
      {
        logName: log.name,
        logId: log.id,
        writer: writerName,
        contentTypes: options.transformer.contentTypes,
        acceptNewLog: options.log.acceptNew,
      },
    ],
  })
  closeLater(() => sink.close())
  // At once, since the ids that ingest returns begin with it.
  await sink.takeNumbers([0])
  const maintenance = setInterval(() => {
    maintain(database, options.store).catch((error: unknown) =>
      logger.error({ err: error }, 'maintenance of the store failed and will be retried'),
    )
  }, maintenanceIntervalMs)
  closeLater(async () => clearInterval(maintenance))

  const source = openEmbeddedSource({
    log,
    consumer: writerName,
    startAt: of => sink.positions!(of),
    chunkBytesMax: options.log.fetchBytes,
    chunkMessagesMax: options.log.fetchMessages,
    damaged: 'dead-letter',
    acceptLost: options.log.acceptLost,
    onLost: (at, messages) => writer.lost(at, messages),
  })
  closeLater(() => source.close())
  const transformer = configuredTransformer(options)
  const decoder = { transformer, subscribed: subjectFilter(options.subscriber.subjects), message: options.message }
  const access = cacheAccess(controlPlane.access, { lifetimeMs: accessLifetimeMs, entriesMax: accessEntriesMax })
  closeLater(async () => access.close())
  const administrators: Omit<Administration, 'isStoreAway'> = {
    isAdministrator: token => controlPlane.isAdministrator(token),
    userOf: token => controlPlane.userOf(token),
    note: (by, action, objects) => controlPlane.note(by, action, objects),
  }
  const inConsole = openUpConsole({
    log: openEmbeddedTopicReader(log, 'dead-letter'),
    deadLetters: openEmbeddedTopicReader(deadLetterLog),
    audit: openAudit(database),
    logNumber: () => sink.logNumbers[0]!,
    dependencies: () => dependenciesIn(registry),
    mqttConnections: () => mqttConnectionsIn(registry),
    writer: () => writer.state(),
    decoder: openDecoder(decoder),
    viewers: controlPlane,
    ...administrators,
    isStoreAway: error => error instanceof DatabaseError && error.transient,
    issueToken: email => controlPlane.issueToken(email),
    demo: options.demo ? { store, writer: { state: () => writer.state(), kill: async () => restarting?.kill() } } : undefined,
    logger,
  })
  const deadLetters = openDeadLetters({
    logOf: async () => deadLetterLog,
    topics: [topic],
    logIds: [log.id],
    logNumbers: sink.logNumbers,
    writer: writerName,
  })
  /** Called after the store has everything below. */
  async function commit(positions: Positions): Promise<void> {
    await source.commit(positions)
    for (const offset of positions.values()) inConsole.arrivals.settled(offset)
  }
  const metrics = pipelineMetrics(registry, writerName, [topic])
  const openOne = () =>
    openWriter({
      name: writerName,
      topics: [topic],
      source: { ...source, commit },
      sink,
      transformer,
      deadLetters,
      options,
      metrics,
      drainMsMax: writerDrainMsMax,
      outages,
      logger,
    })
  const restarting = options.demo ? openRestartingWriter(openOne) : undefined
  const writer = restarting ?? openOne()
  closeLater(() => writer.stop())
  // Before anything listens: if the log lacks the messages that the store needs next, the start fails.
  await Promise.race([writer.started, aborted(signal)])
  if (signal.aborted) return

  const reader = openPostgresReader({ database })
  closeLater(() => reader.close())
  const liveTopic = {
    open: async () => readerOfAppends(openEmbeddedTopicReader(log, 'dead-letter'), listener => log.onAppend(listener)),
  }
  const live = openLiveMessages({ topic: liveTopic, decoder, outage: outages.report('log'), logger })
  closeLater(() => live.close())

  warnOfCompatibility(options.compatibility, logger)
  let ready = false
  const tls = await readServerTls('http', options.http)
  const app = createServer({
    logger,
    ...options.http,
    tls: tls && { ...tls, asksForCertificate: options.ingest.clientCertificates === 'tls' },
    compatibility: options.compatibility,
    countRefusal: countRefusals(registry, 'up'),
  })
  openapiRoutes(app, { version })
  homeRoute(app, {
    version,
    services: ['control plane', 'ingest', 'writer', 'reader'],
    hasMetrics: true,
    // Asked for once the ports are open.
    more: () => ({ ...upConsoleLinks({ hasDemo: options.demo }), ...(mqttUrl === undefined ? {} : { mqtt: mqttUrl }) }),
    page: await readConsolePage(),
  })
  consoleRoutes(app)
  app.register(inConsole.routes)
  healthRoutes(app, {
    version,
    registry,
    ready: () => ready && writer.state() === 'running',
    checks: {
      database: () => controlPlane.check(),
      ...(controlPlane.checkCertificates === undefined ? {} : { certificates: controlPlane.checkCertificates }),
      log: () => log.check(),
      reader: () => reader.check(),
      writer: async () => {
        if (writer.state() === 'running') return 'running'
        throw writer.failure() ?? new Error(`the writer is ${writer.state()}`)
      },
    },
  })
  app.register(controlPlane.routes)
  const ingest = {
    log,
    logLabel: () => String(sink.logNumbers[0]),
    access,
    metrics: openIngestMetrics(registry),
    options: options.ingest,
    decoder: openDecoder({ ...decoder, subscribed: () => true }),
    arrivals: inConsole.arrivals,
    logger,
  }
  const publisher = openPublisher(ingest)
  app.register(ingestRoutes({ ...ingest, publisher }))
  app.register(brokerRoutes({ access, brokers: options.mqtt.brokers, logger }))
  const readerMetrics = openReaderMetrics(registry)
  app.register(async watched => {
    readerMetrics.watch(watched)
    await watched.register(
      readerRoutes({
        reader: readerMetrics.timed(reader),
        access,
        key: deriveKey(masterKeys[0], 'cursors'),
        options: options.reader,
        queriesAtOnce: embeddedQueriesAtOnce,
        keys: recordKeysOf(options.compatibility),
      }),
    )
  })
  const eventIdKey = deriveKey(masterKeys[0], 'live places')
  app.register(async watched => {
    readerMetrics.watchStreams(watched)
    await watched.register(liveRoutes({ live, access, eventIdKey, options: options.live, metrics: readerMetrics.live, logger }))
  })
  const administration = openAdministration({
    log,
    deadLetters: deadLetterLog,
    retention: { isCompacted: false, keptMs: options.log.retentionHours * 3600 * 1000 },
    database,
    writer,
    writerName,
    transformer,
    options,
    ...administrators,
    logger,
  })
  closeLater(() => administration.close())
  app.register(administration.routes)
  closeLater(() => closeServer(app, requestDrainMsMax))
  const hasSessions = options.mqtt.enabled && options.mqtt.subscriptionsMax > 0 && options.mqtt.sessionExpirySecondsMax > 0
  const openTopic: OpenCompactedTopic = use => openCompactedFile(join(folder.path, `${use.name}.sqlite`), use)
  const sessions = hasSessions ? openSessions({ openTopic }) : undefined
  if (sessions !== undefined) closeLater(() => sessions.close())
  const retained = options.mqtt.enabled ? openRetained(openTopic, options.mqtt.retainedMax) : undefined
  if (retained !== undefined) closeLater(() => retained.close())
  const mqttUrl = await openMqtt({
    ...ingest,
    publisher,
    live,
    sessions,
    retained,
    mqtt: options.mqtt,
    http: app,
    registry,
    closeLater,
  })

  const url = await listen(app, options.http)
  closeLater(async () => {
    ready = false
  })
  // After the port is open: if that fails, no administrator was created whose password the next start could not print.
  const administrator = await makeFirstAdministrator(controlPlane, options.admin, join(folder.path, 'admin-password'))
  ready = true
  logger.info({ url, data: folder.path, memory_bytes_max: memoryBytesMax(options), version }, 'ready')
  // The first line for people, and of a first start on a terminal a link that signs in. What follows # is sent to no server.
  const view = options.demo ? '#/break' : ''
  const mayOffer = process.stdout.isTTY && isLoopback(new URL(url).hostname.replace(/[[\]]/g, ''))
  console.log(
    administrator !== undefined && mayOffer
      ? `console: ${url}/#/sign-in/${inConsole.offer(administrator.email)}${view.slice(1)} (signs you in once, within five minutes)`
      : `console: ${url}/${view}`,
  )
  if (administrator !== undefined) printFirstSteps(url, administrator)
  if (strangersReach()) {
    const whoReaches = isBoundToLoopback(app.server) ? 'a proxy (http.trusted_proxies) may forward others to' : 'other machines reach'
    console.log(openSentence(whoReaches, options.users.allowSelfRegister))
  }
  if (mqttUrl !== undefined) console.log(`mqtt on ${mqttUrl}`)
  console.log(`every endpoint, to read and to try: ${url}/docs\nready on ${url}`)
  await Promise.race([aborted(signal), writer.done])
}

/** Opens the master keys; creates one only if the database contains no data encrypted under another. */
async function openKeys(path: string, database: Database): Promise<MasterKeys> {
  if ((await readSecretFile(path)) === undefined && (await isInstalled(database))) {
    throw new SecretError(
      `${path} is missing, and the database contains data encrypted with it: restore it from a backup of the data folder`,
    )
  }
  return openMasterKeys(path)
}

/** What those who reach the address can do without credentials. */
function openSentence(whoReaches: string, mayRegister: boolean): string {
  const registering = mayRegister ? ', and register as users (SVC_USERS_ALLOW_SELF_REGISTER=false closes that)' : ''
  return `${whoReaches} this address: without credentials they read /metrics, /health and /docs${registering}`
}

/** Prints the administrator and the next command to paste. A password is shown on a terminal only. */
function printFirstSteps(url: string, { email, generated }: FirstAdministrator): void {
  if (generated === undefined) console.log(`administrator ${email}, with the given password`)
  else if (process.stdout.isTTY) console.log(`administrator ${email}, password ${generated.password} (also in ${generated.path})`)
  else console.log(`administrator ${email}, password in ${generated.path}`)
  console.log(`
next, in another terminal: simulated devices that publish, and a reader that follows them
  npm run demo -- --url ${url}
or step by step: the tour in README.md
`)
}
