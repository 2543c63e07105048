// The role `api`: the control plane on a PostgreSQL server, with a public port for users and an internal one for other processes.

import { setTimeout as wait } from 'node:timers/promises'
import type { Logger } from '../../config/logger.ts'
import { named } from '../../config/options/variable.ts'
import { factOf } from '../../config/outage.ts'
import { openWhenThere, type ProcessScope } from '../../config/run-process.ts'
import { parseMasterKeys } from '../../config/secrets.ts'
import { consoleRoutes, readConsolePage } from '../../console/console.ts'
import { accessChangesChannel } from '../../control-plane/access-changes.ts'
import { type ControlPlane, ControlPlaneStartError, checkInstallation, prepareControlPlane } from '../../control-plane/index.ts'
import { openFeed } from '../../control-plane/internal/feed.ts'
import { internalRoutes } from '../../control-plane/internal/routes.ts'
import type { AdminOptions } from '../../control-plane/options.ts'
import { DatabaseError } from '../../database/database.ts'
import { openNotifications } from '../../database/notifications.ts'
import { refusalSentence } from '../../database/refusal.ts'
import { checkServer } from '../../database/rights.ts'
import { openServer } from '../../database/server.ts'
import { HttpError } from '../../http/errors.ts'
import type { RoleListeners } from '../../http/role-listeners.ts'
import { readServerTls } from '../../http/tls-files.ts'
import { passCheck, type ServerCheck } from '../checks.ts'
import { type RoleScope, runRole } from '../run-role.ts'
import type { ApiOptions } from './options.ts'

const applicationName = 'sluice-api'
/** Statements of the control plane are far faster; a slower one would block a connection that others wait for. */
const statementMsMax = 30_000
/** Part of the time that a stop may take. */
const databaseCloseMsMax = 500

const databaseUser = {
  option: named('database.url'),
  schemaRights: 'USAGE, CREATE',
  tableRights: (table: string) => `SELECT, INSERT, UPDATE, DELETE ON ${table}`,
} as const

/**
 * Starts the control plane, prints its addresses, and resolves when it has stopped after a signal. If its database is away it starts
 * anyway, and becomes ready when the database is back.
 *
 * @throws ListenError, SecretError, ControlPlaneStartError, NewerSchemaError: errors that an operator can fix, with a message that says how
 */
export async function api(options: ApiOptions, version: string): Promise<void> {
  await runRole('api', { database: 'PostgreSQL' }, options, version, role => open(options, role))
}

/** What the control plane needs of its database, which connects by itself, and the check of its start. */
export async function openApiDatabase(
  { database: { url, connectionsMax }, masterKey }: Pick<ApiOptions, 'database' | 'masterKey'>,
  logger: Logger,
  closeLater: ProcessScope['closeLater'],
) {
  const database = await openServer({
    url,
    applicationName,
    connectionsMax,
    statementTimeoutMs: statementMsMax,
    prepares: true,
    // The feed's own connection reports the outage.
    onConnectionLost: error => logger.debug({ reason: factOf(error) }, 'lost an idle connection to the database'),
  })
  // No request is waiting now, and an unresponsive database would delay the stop.
  closeLater(() => Promise.race([database.close(), wait(databaseCloseMsMax)]))
  const masterKeys = parseMasterKeys(masterKey, 'SVC_MASTER_KEY')
  const check: ServerCheck = {
    name: 'database',
    subject: 'PostgreSQL',
    options: databaseUser.option,
    isAway: error => error instanceof DatabaseError || (error instanceof HttpError && error.code === 'unavailable'),
    run: warn =>
      explained(url, async () => {
        const server = await checkServer(database, warn)
        const pending = await checkInstallation(database, masterKeys)
        return `${server}; ${pending.length === 0 ? 'the schema is that of this version' : `a start applies ${pending.length} migrations`}`
      }),
  }
  return { database, masterKeys, check }
}

async function open(options: ApiOptions, role: RoleScope<'database'>): Promise<RoleListeners> {
  const { signal, closeLater, logger, registry, outages } = role
  for (const warning of options.provisioning.warnings) logger.warn(warning)
  const tls = await readServerTls('internal', options.internal)
  const { url: databaseUrl } = options.database
  const { database, masterKeys, check } = await openApiDatabase(options, logger, closeLater)
  const controlPlane = prepareControlPlane({ database, masterKeys, options, logger, registry })
  closeLater(() => controlPlane.close())
  const feed = openFeed({
    openNotifications: listener => openNotifications({ url: databaseUrl, applicationName, channel: accessChangesChannel }, listener),
    outage: outages.report('database'),
    logger,
  })
  closeLater(() => feed.close())

  const listeners = await role.listen({
    services: ['control plane'],
    page: await readConsolePage(),
    routes: async app => {
      consoleRoutes(app)
      await controlPlane.routes(app)
    },
    internal: {
      address: options.internal.listen,
      tls,
      routes: internalRoutes({ access: controlPlane.access, feed, token: options.internal.token }),
    },
    checks: {
      database: () => controlPlane.check(),
      changes: () => feed.check(),
      ...(controlPlane.checkPolicies === undefined ? {} : { policies: controlPlane.checkPolicies }),
      ...(controlPlane.checkCertificates === undefined ? {} : { certificates: controlPlane.checkCertificates }),
    },
  })
  const outage = outages.report('database')
  await passCheck(check, { outage, logger, signal })
  await openWhenThere({
    open: () =>
      explained(databaseUrl, async () => {
        await controlPlane.start()
        await makeAdministrator(controlPlane, options.admin, logger)
      }),
    isAway: check.isAway,
    outage,
    signal,
  })
  return listeners
}

/** @throws ControlPlaneStartError for an error that waiting cannot fix: a wrong password, a missing database */
async function explained<Result>(url: string, work: () => Promise<Result>): Promise<Result> {
  try {
    return await work()
  } catch (error) {
    if (!(error instanceof DatabaseError) || error.transient) throw error
    throw new ControlPlaneStartError(refusalSentence(error, { ...databaseUser, url }), { cause: error })
  }
}

/** Registers the administrator from the options. Without a password it creates none: an api has no folder in which to store a generated one. */
async function makeAdministrator(controlPlane: ControlPlane, { email, password }: AdminOptions, logger: Logger): Promise<void> {
  if (password !== undefined) {
    const outcome = await controlPlane.ensureAdministrator({ email, password })
    if (outcome === 'created') logger.info('created the administrator')
  } else if (!(await controlPlane.hasAdministrator())) {
    logger.warn('there is no administrator: set SVC_ADMIN_EMAIL and SVC_ADMIN_PASSWORD, and restart')
  }
}
