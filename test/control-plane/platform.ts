// A control plane behind a real HTTP server, on the embedded database and on a PostgreSQL server: the same suite on both.

import { randomUUID } from 'node:crypto'
import type { AddressInfo } from 'node:net'
import { Writable } from 'node:stream'
import { afterAll, beforeAll, describe } from 'vitest'
import { createLogger, type Logger } from '../../config/logger.ts'
import { type OutageReport, openOutage } from '../../config/outage.ts'
import { deriveKey, type MasterKeys } from '../../config/secrets.ts'
import { type FailedAttempts, openFailedAttempts } from '../../control-plane/access/failed-attempts.ts'
import { type AccessChanges, openAccessChanges } from '../../control-plane/access-changes.ts'
import { openAuditLog } from '../../control-plane/audit/store.ts'
import type { CertificatesOptions } from '../../control-plane/certificates/options.ts'
import { type ControlPlane, openControlPlane } from '../../control-plane/index.ts'
import { migrations } from '../../control-plane/installation.ts'
import type { ControlPlaneOptions } from '../../control-plane/options.ts'
import { openRelationalPolicies } from '../../control-plane/policies/relational.ts'
import { argon2id, type Derive, openPasswords, type Passwords } from '../../control-plane/users/passwords.ts'
import { openWrites, type Writes } from '../../control-plane/writes.ts'
import type { Database } from '../../database/database.ts'
import { migrate } from '../../database/migrate.ts'
import { openServer } from '../../database/server.ts'
import type { Compatibility } from '../../http/older-clients.ts'
import { createServer, type HttpServer } from '../../http/server.ts'
import { isDeep } from '../depth.ts'
import { describeUnlessMissing } from '../servers/describe-with.ts'
import { openFreshEmbedded } from '../servers/embedded.ts'
import { missingPostgres } from '../servers/install/postgres.ts'
import { createDatabase, describeWithOwnPostgres } from '../servers/postgres.ts'
import { requestServer } from '../servers/server-request.ts'
import { call } from '../up/operator.ts'
import { ownCertificates } from './certificates/certificates-options.ts'

export const masterKey = Buffer.alloc(32, 7)
export const absentId = '00000000-0000-4000-8000-000000000000'

/**
 * Runs the suite on a fresh embedded database and on a fresh database of a real server; `database` may be used in hooks and tests.
 * Quick suites take turns on each: see `vitest.config.ts`.
 *
 * @param isMigrated whether it has the schema of the control plane already, if that is quicker than creating it
 * @param wanted `embedded`, or `server` for the one that the run shares; by default both, with a separate server (in the gate, that one alone)
 */
export function describeOnDatabases(
  name: string,
  suite: (database: () => Database) => void,
  isMigrated = false,
  wanted = process.env['TEST_DATABASES'],
): void {
  const suiteOn = (open: () => Promise<Database>): void => {
    let database: Database | undefined
    beforeAll(async () => {
      database = await open()
    })
    afterAll(() => database?.close())
    suite(() => database!)
  }
  const onServer = async (url: Promise<string>): Promise<Database> =>
    openServer({ url: await url, applicationName: 'sluice-test', connectionsMax: 8 })
  // The gate uses the server, and --all both. A machine without PostgreSQL runs the suites embedded.
  if (wanted === 'embedded' || (wanted === undefined && isDeep) || missingPostgres() !== undefined)
    describe(`${name}, embedded database`, () => suiteOn(isMigrated ? openMigratedEmbedded : openFreshEmbedded))
  const named = `${name}, PostgreSQL server`
  if (wanted === 'server') describeUnlessMissing(named, missingPostgres(), () => suiteOn(() => onServer(sharedDatabase(isMigrated))))
  // These end connections and check waiting ones, so each has a separate server.
  if (wanted === undefined) describeWithOwnPostgres(named, postgres => suiteOn(() => onServer(postgres.createDatabase())))
}

export interface User {
  readonly id: string
  readonly email: string
  readonly password: string
  /** `Bearer …`. */
  readonly token: string
}

export interface Platform {
  readonly plane: ControlPlane
  readonly app: HttpServer
  readonly url: string
  readonly database: Database
  /** Everything that was logged so far. */
  logged(): string
  /** Registers a fresh user and signs them in. */
  user(): Promise<User>
  /** `Bearer …`. */
  signIn(credentials: Pick<User, 'email' | 'password'>): Promise<string>
  /** The token of the administrator. */
  administrator(): Promise<string>
  close(): Promise<void>
}

/** Counts failed sign-ins like the platform, without the delays of real ones. @param what the account, and the client's network or nothing */
export async function failSignIns(database: Database, times: number, ...what: string[]): Promise<void> {
  const failed = signInFailures(database)
  for (let nth = 0; nth < times; nth++) await failed.note([failed.keyOf('sign-in', ...what)])
}

/** How many sign-ins failed within the last minute. */
export async function failedSignIns(database: Database, ...what: string[]): Promise<number> {
  const failed = signInFailures(database)
  return (await failed.count([failed.keyOf('sign-in', ...what)]))[0]!
}

const signInFailures = (database: Database): FailedAttempts => openFailedAttempts(database, deriveKey(masterKey, 'failed-attempts'))

/** For stores that are opened alone. @param accessChanges announces ended accesses */
export function writesOn(database: Database, accessChanges: AccessChanges = openAccessChanges(recordingLogger().logger)): Writes {
  return openWrites({ policies: openRelationalPolicies(database), audit: openAuditLog(database, { retentionDays: 365 }), accessChanges })
}

/** For a client of the platform. */
export function controlPlaneOutage(logger: Logger): OutageReport {
  return openOutage({ logger, dependency: 'control_plane', name: 'the control plane' })()
}

/** In the database. */
export const ownPolicies = { store: 'relational' } as const

export const administrator = { email: 'chief@sluice.example', password: 'the chief of them all' }
/** Each test registers users and signs them in, which at the recommended cost would be most of its time. */
export const openCheapPasswords = (derive: Derive = argon2id): Passwords => openPasswords(derive, { memoryKib: 64, passes: 1 })
const cheapPasswords = openCheapPasswords()
let serial = 0

export async function openPlatform(
  database: Database,
  {
    allowSelfRegister = true,
    registrationsPerHour = 0,
    boundSelfRegistered = false,
    policies = ownPolicies,
    compatibility = 'none',
    certificates = ownCertificates,
    masterKeys = [masterKey],
    passwords = cheapPasswords,
    provisioning,
    services,
  }: {
    allowSelfRegister?: boolean
    registrationsPerHour?: number
    boundSelfRegistered?: boolean
    policies?: ControlPlaneOptions['policies']
    compatibility?: Compatibility
    certificates?: CertificatesOptions
    masterKeys?: MasterKeys
    passwords?: Passwords
  } & Pick<ControlPlaneOptions, 'provisioning' | 'services'> = {},
): Promise<Platform> {
  const { logger, logged } = recordingLogger()
  const plane = await openControlPlane({
    database,
    masterKeys,
    options: {
      users: { allowSelfRegister, registrationsPerHour, boundSelfRegistered },
      tokens: { lifetimeSeconds: 3600 },
      audit: { retentionDays: 365 },
      policies,
      certificates,
      compatibility,
      ...(provisioning === undefined ? {} : { provisioning }),
      ...(services === undefined ? {} : { services }),
    },
    logger,
    passwords,
  })
  await plane.ensureAdministrator(administrator)
  // So that a test can send from any address.
  const app = createServer({ logger, trustedProxies: ['127.0.0.1'], compatibility })
  await app.register(plane.routes)
  await app.listen({ port: 0, host: '127.0.0.1' })
  const url = `http://127.0.0.1:${(app.server.address() as AddressInfo).port}`

  async function signIn(credentials: { email: string; password: string }): Promise<string> {
    const { json } = await call(url, 'POST', '/tokens', { body: credentials })
    return `Bearer ${json!.token as string}`
  }

  return {
    plane,
    app,
    url,
    database,
    logged,
    async user() {
      const credentials = { email: `user-${serial++}@sluice.example`, password: 'correct horse battery' }
      const authorization = await signIn(administrator)
      const { headers } = await call(url, 'POST', '/users', { authorization, body: credentials })
      return { ...credentials, id: headers.get('location')!.replace('/users/', ''), token: await signIn(credentials) }
    },
    signIn: ({ email, password }) => signIn({ email, password }),
    administrator: () => signIn(administrator),
    async close() {
      await app.close()
      await plane.close()
    },
  }
}

/** A platform that runs during the tests of one `describeOnDatabases`. @param wanted as there */
export function describePlatform(name: string, suite: (platform: () => Platform) => void, wanted?: 'server'): void {
  const onPlatform = (database: () => Database): void => {
    let platform: Platform | undefined
    beforeAll(async () => {
      platform = await openPlatform(database())
    })
    afterAll(() => platform?.close())
    suite(() => platform!)
  }
  describeOnDatabases(name, onPlatform, true, wanted)
}

/** The same, only on a server: for tests that do not depend on the database, such as rights and the description of routes. */
export function describePlatformOnServer(name: string, suite: (platform: () => Platform) => void): void {
  describePlatform(name, suite, 'server')
}

/** On the server that the quick suites of a run share. */
async function sharedDatabase(isMigrated: boolean): Promise<string> {
  const { url, migrated } = (await requestServer('control-plane-databases')) as { url: string; migrated: string }
  return createDatabase(url, `test_${randomUUID().replaceAll('-', '')}`, isMigrated ? migrated : 'template1')
}

/** With the schema of the control plane, which takes seconds to create. */
function openMigratedEmbedded(): Promise<Database> {
  return openFreshEmbedded({
    name: 'control-plane',
    folder: migrations.folder,
    make: async database => void (await migrate(database, migrations)),
  })
}

export function recordingLogger(): { logger: Logger; logged: () => string } {
  let lines = ''
  const stream = new Writable({
    write(chunk: Buffer, _encoding, done) {
      lines += chunk.toString()
      done()
    },
  })
  const logger = createLogger({ level: 'trace', pretty: false }, stream)
  return { logger, logged: () => lines }
}
