// The role `api`: the control plane over a PostgreSQL server, for users on one port and for the other processes on another.

import { setTimeout as wait } from 'node:timers/promises'
import { collectDefaultMetrics, Registry } from 'prom-client'
import { HttpError } from '../config/http/errors.ts'
import { silent } from '../config/http/health-checks.ts'
import { openRoleListeners } from '../config/http/role-listeners.ts'
import { type Logger, openLogger } from '../config/logger.ts'
import { named } from '../config/option-variable.ts'
import { factOf, openOutages } from '../config/outage.ts'
import { DatabaseError } from '../config/postgres/database.ts'
import { openNotifications } from '../config/postgres/notifications.ts'
import { refusalSentence } from '../config/postgres/refusal.ts'
import { openServer } from '../config/postgres/server.ts'
import { aborted, openWhenThere, type ProcessScope, runProcess } from '../config/run-process.ts'
import { parseMasterKeys } from '../config/secrets.ts'
import { readServerTls } from '../config/tls-files.ts'
import { changesChannel } from '../control-plane/changes.ts'
import { type ControlPlane, ControlPlaneStartError, prepareControlPlane, type UnstartedControlPlane } from '../control-plane/index.ts'
import { openFeed } from '../control-plane/internal/feed.ts'
import { internalRoutes } from '../control-plane/internal/routes.ts'
import type { AdminOptions } from '../control-plane/options.ts'
import type { ApiOptions } from './api-options.ts'

const applicationName = 'sluice-api'
/** No statement of the control plane takes nearly as long; one that does holds a connection that others wait for. */
const statementMsMax = 30_000
/** Of the five seconds that a stop may take. */
const databaseCloseMsMax = 500

const databaseUser = {
  option: named('database.url'),
  schemaRights: 'USAGE, CREATE',
  tableRights: (table: string) => `SELECT, INSERT, UPDATE, DELETE ON ${table}`,
} as const

/**
 * Starts the control plane, prints where it is ready, and resolves when it has stopped after a signal. It starts also while its database is
 * away, and is not ready until it is there.
 *
 * @throws ListenError, SecretError, ControlPlaneStartError, NewerSchemaError: what a person can mend, with a message that says how
 */
export async function api(options: ApiOptions, version: string): Promise<void> {
  const logger = openLogger(options.logging)
  await runProcess(logger, scope => serve(options, version, logger, scope))
}

async function serve(options: ApiOptions, version: string, logger: Logger, { signal, closeLater }: ProcessScope): Promise<void> {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  const outages = openOutages(logger, registry, 'api', { database: 'PostgreSQL' })
  for (const warning of options.provisioning.warnings) logger.warn(warning)
  const tls = await readServerTls('internal', options.internal)
  const { url: databaseUrl, connectionsMax } = options.database
  const database = await openServer({
    url: databaseUrl,
    applicationName,
    connectionsMax,
    statementTimeoutMs: statementMsMax,
    prepares: true,
    // The feed's own connection reports the outage.
    onConnectionLost: error => logger.debug({ reason: factOf(error) }, 'an idle connection to the database was lost'),
  })
  // By then nobody waits for an answer, and a database that gives none would hold up the stop.
  closeLater(() => Promise.race([database.close(), wait(databaseCloseMsMax)]))
  const masterKeys = parseMasterKeys(options.masterKey, 'SVC_MASTER_KEY')
  const controlPlane = prepareControlPlane({ database, masterKeys, options, logger, registry })
  closeLater(() => controlPlane.close())
  const feed = openFeed({
    openNotifications: listener => openNotifications({ url: databaseUrl, applicationName, channel: changesChannel }, listener),
    outage: outages.report('database'),
    logger,
  })
  closeLater(() => feed.close())

  const listeners = await openRoleListeners(
    {
      logger,
      version,
      http: options.http,
      compatibility: options.compatibility,
      routes: controlPlane.routes,
      internal: {
        address: options.internal.listen,
        tls,
        routes: internalRoutes({ access: controlPlane.access, feed, token: options.internal.token }),
      },
      registry,
      checks: {
        database: silent(() => controlPlane.check()),
        changes: silent(() => feed.check()),
        ...(controlPlane.checkPolicies === undefined ? {} : { policies: silent(controlPlane.checkPolicies) }),
      },
    },
    closeLater,
  )
  await openWhenThere({
    open: () => start(controlPlane, options, logger),
    isAway: error => error instanceof DatabaseError || (error instanceof HttpError && error.code === 'unavailable'),
    outage: outages.report('database'),
    signal,
  })
  if (signal.aborted) return
  listeners.ready()
  await aborted(signal)
}

/** @throws ControlPlaneStartError where no waiting helps: a wrong password, a database that does not exist */
async function start(controlPlane: UnstartedControlPlane, { admin, database: { url } }: ApiOptions, logger: Logger): Promise<void> {
  try {
    await controlPlane.start()
    await makeAdministrator(controlPlane, admin, logger)
  } catch (error) {
    if (!(error instanceof DatabaseError) || error.transient) throw error
    throw new ControlPlaneStartError(refusalSentence(error, { ...databaseUser, url }), { cause: error })
  }
}

/** Registers the administrator that the options name. Without a password nobody is made: an api has no folder to leave one in. */
async function makeAdministrator(controlPlane: ControlPlane, { email, password }: AdminOptions, logger: Logger): Promise<void> {
  if (password !== undefined) {
    const outcome = await controlPlane.ensureAdministrator({ email, password })
    if (outcome === 'created') logger.info('the administrator was made')
  } else if (!(await controlPlane.hasAdministrator())) {
    logger.warn('there is no administrator: set SVC_ADMIN_EMAIL and SVC_ADMIN_PASSWORD, and start again')
  }
}
