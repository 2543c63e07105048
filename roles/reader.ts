// The role `reader`: gives back over HTTP what one store holds, and asks the control plane in another process who may read it.

import { setTimeout as wait } from 'node:timers/promises'
import { collectDefaultMetrics, Registry } from 'prom-client'
import { Type } from 'typebox'
import { silent } from '../config/http/health-checks.ts'
import { openRoleListeners } from '../config/http/role-listeners.ts'
import { type Logger, openLogger } from '../config/logger.ts'
import { listOptions } from '../config/option-schema.ts'
import { openOutages, watchDependency } from '../config/outage.ts'
import { aborted, openWhenThere, type ProcessScope, runProcess } from '../config/run-process.ts'
import { SystemicError } from '../pipeline/systemic-error.ts'
import { openCursors } from '../readers/cursor.ts'
import { QueryTooLargeError, type Reader, StoreUnavailableError } from '../readers/reader.ts'
import { recordKeysOf } from '../readers/record-keys.ts'
import { readerRoutes } from '../readers/routes.ts'
import { SinkError } from '../sinks/sink-error.ts'
import { cursorKeyOf } from './cursor-key.ts'
import { openReaderLive } from './reader-live.ts'
import { openReaderMetrics } from './reader-metrics.ts'
import type { ReaderRoleOptions } from './reader-options.ts'
import { openRoleAccess } from './remote-access.ts'
import { databaseNames, type StoreKind } from './stores/store.ts'

/** Of the five seconds that a stop may take. */
const storeCloseMsMax = 500
/** What the language throws where code is wrong: nobody mends that by an option. */
const defects = [TypeError, RangeError, ReferenceError, SyntaxError]

/**
 * Starts a reader, prints where it is ready, and resolves when it has stopped after a signal, with every request under way answered or
 * broken off. It starts also while its store or the control plane is away; until both were reached once it is not ready and answers 503.
 *
 * @throws ListenError, SecretError, SystemicError, ControlPlaneRefusalError: what a person can mend, with a message that says how
 */
export async function reader(kind: StoreKind, options: ReaderRoleOptions, version: string): Promise<void> {
  const logger = openLogger(options.logging)
  await runProcess(logger, scope => serve(kind, options, version, logger, scope))
}

async function serve(
  kind: StoreKind,
  options: ReaderRoleOptions,
  version: string,
  logger: Logger,
  { signal, closeLater }: ProcessScope,
): Promise<void> {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  const outages = openOutages(logger, registry, 'reader', {
    store: databaseNames[kind.name],
    control_plane: 'the control plane',
    log: 'Kafka',
  })
  const control = await openRoleAccess(options.control, outages.report('control_plane'), closeLater)
  const { access } = control
  const store = await kind.openReader(options.store)
  // By then nobody waits for an answer, and a store that gives none would hold up the stop.
  closeLater(() => Promise.race([store.close(), wait(storeCloseMsMax)]))
  const { key, isShared } = cursorKeyOf({ cursorKey: options.reader.cursorKey, token: options.control.token })
  if (!isShared) {
    logger.warn(
      'cursors, and the ids of live streams, are of this process alone: another reader, and this one after its next start, answers them 400; give every reader the same SVC_CONTROL_TOKEN, or the same SVC_READER_CURSOR_KEY',
    )
  }
  const metrics = openReaderMetrics(registry)
  const live = openReaderLive(options, { access, key, metrics: metrics.live, outage: outages.report('log'), logger })
  closeLater(() => live.close())

  const listeners = await openRoleListeners(
    {
      logger,
      version,
      http: options.http,
      compatibility: options.compatibility,
      routes: async app => {
        await app.register(async watched => {
          metrics.watch(watched)
          await watched.register(
            readerRoutes({
              reader: metrics.timed(store),
              access,
              cursors: openCursors(key),
              options: options.reader,
              keys: recordKeysOf(options.compatibility),
            }),
          )
        })
        await app.register(async watched => {
          metrics.watchStreams(watched)
          await watched.register(live.routes)
        })
      },
      internal: { address: options.internal.listen },
      registry,
      checks: {
        store: silent(() => store.check()),
        'control-plane': silent(() => control.check()),
        ...(live.check === undefined ? {} : { log: silent(live.check) }),
      },
      isServing: () => control.isAccepted(),
    },
    closeLater,
  )
  const places = placesOf(kind, options.store)
  const storeAnswered = openWhenThere({
    open: () => askFirst(store, places),
    isAway,
    outage: outages.report('store'),
    signal,
  })
  await Promise.all([storeAnswered, control.reachFirst(signal)])
  if (signal.aborted) return
  listeners.ready()
  void watchDependency(() => store.check(), outages.report('store'), signal)
  await aborted(signal)
}

/** @throws SystemicError where no waiting helps: a wrong password, a database that does not exist */
async function askFirst(store: Reader, places: string): Promise<void> {
  try {
    await store.check()
  } catch (error) {
    if (isAway(error) || error instanceof SinkError || defects.some(kind => error instanceof kind)) throw error
    throw new SystemicError(`the store refuses this reader: ${(error as Error).message}: look at ${places}`, { cause: error })
  }
}

function isAway(error: unknown): boolean {
  return error instanceof StoreUnavailableError || error instanceof QueryTooLargeError
}

/** Where a person says which store it is and who comes: `store.url (SVC_RELATIONAL_URL)`. */
function placesOf(kind: StoreKind, options: unknown): string {
  const names = new Set(['store.url', ...Object.keys(kind.secrets(options))])
  return listOptions(Type.Object({ store: kind.readerOptions }))
    .filter(({ name }) => names.has(name))
    .map(({ name, variable }) => `${name} (${variable})`)
    .join(' and ')
}
