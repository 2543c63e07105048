// The role `reader`: serves the messages of one store over HTTP, and asks the control plane in another process who may read them.

import { setTimeout as wait } from 'node:timers/promises'
import { Type } from 'typebox'
import { listOptions } from '../../config/options/schema.ts'
import { type OutageReport, watchDependency } from '../../config/outage.ts'
import type { ProcessScope } from '../../config/run-process.ts'
import { consoleRoutes, readConsolePage } from '../../console/console.ts'
import type { RoleListeners } from '../../http/role-listeners.ts'
import { SystemicError } from '../../pipeline/systemic-error.ts'
import { recordKeysOf } from '../../readers/answers/record-keys.ts'
import { QueryTooLargeError, type Reader, StoreUnavailableError } from '../../readers/reader.ts'
import { readerRoutes } from '../../readers/routes.ts'
import { SinkError } from '../../sinks/sink-error.ts'
import { passCheck } from '../checks.ts'
import { openRoleAccess } from '../remote-access.ts'
import { type RoleScope, runRole } from '../run-role.ts'
import { type StoreOptions, storeOptions } from '../stores/options.ts'
import { databaseNames, type StoreKind } from '../stores/store.ts'
import { cursorKeyOf } from './cursor-key.ts'
import { openReaderLive } from './live.ts'
import { openReaderMetrics } from './metrics.ts'
import type { ReaderRoleOptions } from './options.ts'

/** Part of the time that a stop may take. */
const storeCloseMsMax = 500
/** JavaScript errors that indicate a bug, which no option can fix. */
const defects = [TypeError, RangeError, ReferenceError, SyntaxError]

/**
 * Starts a reader, prints its addresses, and resolves when it has stopped after a signal and every running request was answered or
 * aborted. It starts even if its store or the control plane is away; until both were reached once it is not ready and answers 503.
 *
 * @throws ListenError, SecretError, SystemicError, ControlPlaneRefusalError: errors that an operator can fix, with a message that says how
 */
export async function reader(kind: StoreKind, options: ReaderRoleOptions, version: string): Promise<void> {
  const dependencies = { store: databaseNames[kind.name], control_plane: 'the control plane', log: 'Kafka' }
  await runRole('reader', dependencies, options, version, role => open(kind, options, role))
}

type ReaderScope = RoleScope<'store' | 'control_plane' | 'log'>

async function open(kind: StoreKind, options: ReaderRoleOptions, role: ReaderScope): Promise<RoleListeners> {
  const { signal, closeLater, logger, registry, outages } = role
  const { control, store, checks } = await openReaderParts(kind, options, outages.report('control_plane'), closeLater)
  const { access } = control
  const { key, isShared } = cursorKeyOf({ cursorKey: options.reader.cursorKey, token: options.control.token })
  if (!isShared) {
    logger.warn(
      'cursors and event ids of live streams are valid in this process only: other readers, and this one after a restart, reject them with 400, and answer unchanged pages in full; give every reader the same SVC_CONTROL_TOKEN or SVC_READER_CURSOR_KEY',
    )
  }
  const metrics = openReaderMetrics(registry)
  const live = await openReaderLive(options, { access, key, metrics: metrics.live, outage: outages.report('log'), logger })
  closeLater(() => live.close())

  const listeners = await role.listen({
    services: [`reader of ${databaseNames[kind.name]}`],
    page: await readConsolePage(),
    routes: async app => {
      consoleRoutes(app)
      await app.register(async watched => {
        metrics.watch(watched)
        await watched.register(
          readerRoutes({
            reader: metrics.timed(store),
            access,
            key,
            options: options.reader,
            queriesAtOnce: kind.queriesAtOnce(options.store),
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
    checks: {
      store: () => store.check(),
      'control-plane': () => control.check(),
      ...(live.check === undefined ? {} : { log: live.check }),
    },
    isServing: () => control.isAccepted(),
  })
  await Promise.all(checks.map(check => passCheck(check, { outage: outages.report(check.name), logger, signal })))
  void watchDependency(() => store.check(), outages.report('store'), signal)
  return listeners
}

/**
 * What a reader asks, which connects by itself, and the checks of its start.
 *
 * @throws SecretError for a certificate that cannot be used
 */
export async function openReaderParts(
  kind: StoreKind,
  options: ReaderRoleOptions,
  outage: OutageReport,
  closeLater: ProcessScope['closeLater'],
) {
  const control = await openRoleAccess(options.control, outage, closeLater)
  const store = await kind.openReader(options.store)
  // No request is waiting when a reader stops, and an unresponsive store would delay that.
  closeLater(() => Promise.race([store.close(), wait(storeCloseMsMax)]))
  const optionNames = optionNamesOf(await storeOptions(kind.name), options.store)
  const storeCheck = {
    name: 'store',
    subject: databaseNames[kind.name],
    options: optionNames,
    isAway,
    async run() {
      await askFirst(store, optionNames)
      return 'its tables can be read'
    },
  } as const
  return { control, store, checks: [{ ...control.startCheck, name: 'control_plane' }, storeCheck] as const }
}

/** @throws SystemicError for an error that waiting cannot fix: a wrong password, a missing database */
async function askFirst(store: Reader, optionNames: string): Promise<void> {
  try {
    await store.check()
  } catch (error) {
    if (isAway(error) || error instanceof SinkError || defects.some(kind => error instanceof kind)) throw error
    throw new SystemicError(`the store rejects this reader: ${(error as Error).message}: check ${optionNames}`, { cause: error })
  }
}

function isAway(error: unknown): boolean {
  return error instanceof StoreUnavailableError || error instanceof QueryTooLargeError
}

/** The options for the store's address and credentials: `store.url (SVC_RELATIONAL_URL)`. */
function optionNamesOf(kind: StoreOptions, options: unknown): string {
  const names = new Set(['store.url', ...Object.keys(kind.secrets(options))])
  return listOptions(Type.Object({ store: kind.reader }))
    .filter(({ name }) => names.has(name))
    .map(({ name, variable }) => `${name} (${variable})`)
    .join(' and ')
}
