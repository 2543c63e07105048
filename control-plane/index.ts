// The control plane: migrates its database, wires its parts, and provides its routes and the access control for ingest and readers.

import type { Registry } from 'prom-client'
import type { Logger } from '../config/logger.ts'
import { deriveKey, type MasterKeys } from '../config/secrets.ts'
import type { Database } from '../database/database.ts'
import { migrate } from '../database/migrate.ts'
import type { HttpServer } from '../http/server.ts'
import { openAccess } from './access/access.ts'
import { decorateCaller, openAuthentication } from './access/authentication.ts'
import { openAuthorization } from './access/authorization.ts'
import { openFailedAttempts } from './access/failed-attempts.ts'
import { openAccessChanges } from './access-changes.ts'
import { auditRoutes } from './audit/routes.ts'
import { type AuditAction, openAuditLog } from './audit/store.ts'
import { openExternalKeys, openFailedFetches } from './bootstrap/external-keys.ts'
import { bootstrapRoutes } from './bootstrap/routes.ts'
import { openBootstrapConfigs, openBootstrapSecrets } from './bootstrap/store.ts'
import { openCertificateService } from './certificates/index.ts'
import { watchExpiries } from './certificates/metrics.ts'
import { certificateRoutes } from './certificates/routes.ts'
import { channelRoutes } from './channels/routes.ts'
import { openChannels } from './channels/store.ts'
import type { AccessControl } from './client.ts'
import { connectionRoutes } from './connections/routes.ts'
import { openConnections } from './connections/store.ts'
import { openGroupMembers } from './groups/member-store.ts'
import { groupRoutes } from './groups/routes.ts'
import { openGroups } from './groups/store.ts'
import { toThingId, toUserId } from './ids.ts'
import { install, migrations } from './installation.ts'
import { keyRoutes } from './keys/routes.ts'
import { openApiKeys } from './keys/store.ts'
import { type ControlPlaneOptions, services } from './options.ts'
import { openFairQueue } from './outside/fair-queue.ts'
import { openPolicyAdministration } from './policies/administration.ts'
import { openOpenFga } from './policies/openfga/store.ts'
import { openRelationalPolicies } from './policies/relational.ts'
import { policyRoutes } from './policies/routes.ts'
import { openConfiguredCaller } from './provisioning/configured-caller.ts'
import { openMappings } from './provisioning/mapping.ts'
import { provisioningDefaults } from './provisioning/options.ts'
import { provisioningRoutes } from './provisioning/routes.ts'
import { openMappingRows } from './provisioning/store.ts'
import { openRequestedIds } from './requests/requested-ids.ts'
import { openUnknownKeys } from './requests/unknown-keys.ts'
import { openThingKeys } from './things/keys.ts'
import { thingRoutes } from './things/routes.ts'
import { sharingRoutes } from './things/sharing.ts'
import { openThings } from './things/store.ts'
import { tokenRoutes } from './tokens/routes.ts'
import { openTokens } from './tokens/store.ts'
import { ensureAdministrator, hasAdministrator } from './users/administrator.ts'
import type { Credentials } from './users/credentials.ts'
import { openPasswords, type Passwords, passwordWork } from './users/passwords.ts'
import { openRegistrations } from './users/registrations.ts'
import { userRoutes } from './users/routes.ts'
import { openSignIn } from './users/sign-in.ts'
import { openUsers } from './users/store.ts'
import { openTokenVersions } from './users/token-versions.ts'
import { openWrites } from './writes.ts'

export { ControlPlaneStartError, checkInstallation, isInstalled } from './installation.ts'

export interface ControlPlaneParts {
  /** The caller opened it, and closes it after `close`. */
  readonly database: Database
  /** The same for every instance on this database, except while a key is being replaced. */
  readonly masterKeys: MasterKeys
  readonly options: ControlPlaneOptions
  /** Whether others than the people of this machine reach the routes, asked at each registration; by default they do. */
  readonly strangersReach?: () => boolean
  readonly logger: Logger
  /** For its metrics; there are none without it. */
  readonly registry?: Registry
  /** At the recommended cost by default. */
  readonly passwords?: Passwords
}

export interface ControlPlane {
  /** A fastify plugin with all routes. */
  readonly routes: (app: HttpServer) => Promise<void>
  readonly access: AccessControl
  /**
   * Registers the administrator if there is none.
   *
   * @throws ControlPlaneStartError for credentials that are not allowed, with a sentence for the operator
   */
  ensureAdministrator(credentials: Credentials): Promise<'created' | 'exists'>
  hasAdministrator(): Promise<boolean>
  /**
   * Whether the user of this token is an administrator (SPEC §5); undefined for an invalid token. For routes outside this folder.
   *
   * @throws HttpError `forbidden` for an API key with a scope
   */
  isAdministrator(token: string): Promise<boolean | undefined>
  /** The user of this token; undefined for an invalid one. For routes outside this folder. @throws HttpError as `isAdministrator` */
  userOf(token: string): Promise<string | undefined>
  /** @throws HttpError as `GET /things/{thing}` for a user who may not view it, and for a thing that is absent */
  demandView(user: string, thing: string): Promise<void>
  /** Adds a line to the audit log for a route outside this folder. Call it before the act, so that none is without its line. */
  note(
    by: { readonly user: string; readonly address: string; readonly request: string },
    action: AuditAction,
    objects: readonly string[],
  ): Promise<void>
  /** A token for the user with this email, recognised by other means than a password; undefined if there is none, or they are disabled. */
  issueToken(email: string): Promise<{ readonly user: string; readonly token: string } | undefined>
  /** @throws DatabaseError when the database does not answer */
  check(): Promise<void>
  /** Checks the policy store; undefined if that is the database. @throws HttpError `unavailable` when it does not answer */
  readonly checkPolicies: (() => Promise<void>) | undefined
  /** Checks an authority elsewhere; undefined if there is nothing to check. @throws if it cannot sign, now or soon */
  readonly checkCertificates: (() => Promise<void>) | undefined
  /** Removes the listeners to access changes. The HTTP server must have finished its requests before. */
  close(): Promise<void>
}

export interface UnstartedControlPlane extends ControlPlane {
  /**
   * Migrates the database, and installs what the first start needs. May be called again after a failure. Call it before the routes and the
   * access control are used.
   *
   * @throws ControlPlaneStartError when the database is written under a master key that is not given,
   * @throws DatabaseError when the database cannot be reached or brought up to date
   * @throws SecretError for files and keys of the options that cannot be read
   */
  start(): Promise<void>
}

/** How long further failed fetches are refused once an instance counts as many as it may: these keys can be guessed. */
const failedFetchesWaitMs = 1_000

/** Prepared and started; throws what `start` does. */
export async function openControlPlane(parts: ControlPlaneParts): Promise<ControlPlane> {
  const controlPlane = prepareControlPlane(parts)
  await controlPlane.start()
  return controlPlane
}

/** Wires the parts, without a query to the database. */
export function prepareControlPlane({
  database,
  masterKeys,
  options,
  strangersReach = () => true,
  logger,
  registry,
  passwords = openPasswords(),
}: ControlPlaneParts): UnstartedControlPlane {
  const keysFor = (purpose: string) => masterKeys.map(masterKey => deriveKey(masterKey, purpose)) as [Buffer, ...Buffer[]]
  const { layout, credentials, externalKeyBytesMin } = options.provisioning ?? provisioningDefaults
  const isCompatible = options.compatibility === '0.13'
  const externalStore = options.policies.store === 'openfga' ? openOpenFga(database, options.policies.openfga, logger) : undefined
  const policies = externalStore ?? openRelationalPolicies(database)
  // On a server there may always be other instances.
  const accessChanges = openAccessChanges(logger, { shared: database.kind === 'server' })
  const audit = openAuditLog(database, options.audit)
  const writes = openWrites({ policies, audit, accessChanges })
  const users = openUsers({ database, policies, writes, passwords, versions: openTokenVersions(database) })
  const failedAttempts = openFailedAttempts(database, keysFor('failed-attempts')[0])
  const unknownKeys = openUnknownKeys(failedAttempts)
  const passwordQueue = openFairQueue(passwordWork)
  const signIn = openSignIn({ users, failedAttempts, passwordQueue })
  const tokens = openTokens(keysFor('tokens'), options.tokens)
  const thingKeys = openThingKeys(masterKeys)
  const apiKeys = openApiKeys(database, writes)
  const certificates = openCertificateService({ database, writes, masterKeys, options: options.certificates, logger })
  if (registry !== undefined) watchExpiries(registry, certificates)
  const things = openThings({ database, policies, writes, thingKeys, certificates })
  const channels = openChannels(database, writes)
  const connections = openConnections(database, writes)
  const groups = openGroups(database, policies, writes)
  const members = openGroupMembers(database, policies, writes)
  const requestedIds = openRequestedIds(failedAttempts, isCompatible)
  const externalKeys = openExternalKeys(masterKeys, externalKeyBytesMin)
  const failedFetches = openFailedFetches(openUnknownKeys(failedAttempts, failedFetchesWaitMs))
  const sealed = openBootstrapSecrets(masterKeys)
  // Agents of older platforms never acknowledge their private keys.
  const keepsPrivateKeys = isCompatible
  const revokesReplaced = options.certificates.mode === 'pki'
  const bootstrapConfigParts = {
    database,
    writes,
    things,
    connections,
    certificates,
    revokesReplaced,
    thingKeys,
    externalKeys,
    sealed,
    keepsPrivateKeys,
  }
  const bootstrapConfigs = openBootstrapConfigs(bootstrapConfigParts)
  const rows = openMappingRows(database, externalKeys)
  const mappings = openMappings({ ...bootstrapConfigParts, layout, rows, channels, bootstrapConfigs })
  const authentication = openAuthentication({ tokens, users, apiKeys, unknownKeys })
  const authorization = openAuthorization(policies)
  const configuredCaller = credentials && openConfiguredCaller(credentials, { authentication, signIn, users, logger })
  const served = new Set(options.services ?? services)

  return {
    async start() {
      await migrate(database, migrations)
      await certificates.start()
      await externalStore?.start()
      const outcome = await install(database, policies, masterKeys)
      if (outcome === 'installed') logger.info('control plane installed')
      await bootstrapConfigs.eraseOverdue()
      const lost = await externalKeys.countUnderOtherMasterKeys(database, externalKeys.masterKeyIds)
      if (lost > 0)
        logger.warn(
          { external_keys: lost },
          'external keys are encrypted with a master key that is not configured, so their devices cannot fetch their configurations: add that key after the first one, or delete their mappings and create them again',
        )
    },
    async routes(app) {
      decorateCaller(app)
      if (served.has('core')) {
        userRoutes(app, {
          users,
          signIn,
          passwordQueue,
          registrations: openRegistrations(failedAttempts, options.users.registrationsPerHour),
          authentication,
          authorization,
          allowSelfRegister: options.users.allowSelfRegister,
          boundSelfRegistered: () => options.users.boundSelfRegistered && strangersReach(),
          logger,
        })
        keyRoutes(app, { apiKeys, users, connections, authentication, authorization })
        tokenRoutes(app, { signIn, tokens })
        thingRoutes(app, { things, requestedIds, authentication, authorization })
        channelRoutes(app, { channels, requestedIds, authentication, authorization })
        sharingRoutes(app, { things, authentication, authorization })
        policyRoutes(app, { policyAdministration: openPolicyAdministration(policies, writes), authentication, authorization })
        groupRoutes(app, { groups, members, things, users, authentication, authorization })
        connectionRoutes(app, { connections, things, channels, authentication, authorization })
        auditRoutes(app, { audit, authentication, authorization })
      }
      if (served.has('certs'))
        certificateRoutes(app, { certificates, things, options: options.certificates, authentication, authorization })
      const externalKeyParts = { externalKeys, failedFetches, authentication, authorization }
      if (served.has('bootstrap'))
        bootstrapRoutes(app, {
          ...externalKeyParts,
          bootstrapConfigs,
          things,
          connections,
          certificates: options.certificates,
          isCompatible,
        })
      if (served.has('provision')) {
        const content = layout.bootstrap.content ?? {}
        provisioningRoutes(app, { ...externalKeyParts, mappings, rows, content, configuredCaller })
      }
    },
    access: openAccess({ database, thingKeys, apiKeys, certificates, tokens, accessChanges, unknownKeys, authorization }),
    ensureAdministrator: credentials => ensureAdministrator(users, policies, credentials),
    hasAdministrator: () => hasAdministrator(policies),
    async isAdministrator(token) {
      const user = await authentication.userOf(token)
      return user === undefined ? undefined : authorization.isAdministrator(user)
    },
    userOf: token => authentication.userOf(token),
    async demandView(user, thing) {
      const [by, id] = [toUserId(user), toThingId(thing)]
      const exists = (): Promise<boolean> => things.exists(id)
      if (!(await authorization.allows(by, 'read', id)) || !(await exists())) throw await authorization.refusal(by, exists)
    },
    note: ({ user, ...where }, action, objects) => writes({ user: toUserId(user), ...where }, async write => write.note(action, objects)),
    async issueToken(email) {
      const known = await users.enabled(email)
      return known && { user: known.user, token: await tokens.issue({ user: known.user, version: known.tokenVersion }) }
    },
    check: async () => void (await database.query('SELECT 1')),
    checkPolicies: externalStore && (() => externalStore.check()),
    checkCertificates: certificates.check,
    async close() {
      accessChanges.close()
      await certificates.close()
      await externalStore?.close()
    },
  }
}
