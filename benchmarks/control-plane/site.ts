// A control plane behind HTTP on a database with many things, as the role `api` opens it.

import type { AddressInfo } from 'node:net'
import { createLogger } from '../../config/logger.ts'
import { deriveKey } from '../../config/secrets.ts'
import { openControlPlane } from '../../control-plane/index.ts'
import { openThingKeys } from '../../control-plane/things/keys.ts'
import { openTokens } from '../../control-plane/tokens/store.ts'
import type { Database, SqlValue } from '../../database/database.ts'
import { openServer } from '../../database/server.ts'
import { createServer } from '../../http/server.ts'
import { ownCertificates } from '../../test/control-plane/certificates/certificates-options.ts'
import { giveKeys, ownerAt, ownerOfThing, type Population, populate, settle, thingAt } from '../../test/control-plane/population.ts'

const masterKeys = [Buffer.alloc(32, 7)] as const
/** Owners whose things the benchmark requests, besides owner 0, who has a tenth of all things. */
export const askedOwners = 8
/** The default of `./sluice api`. */
const connectionsMax = 10
/** Enough things of owner 0 for the first page of each list. */
const firstThings = 20_000

export interface Site {
  readonly population: Population
  /** The pool of the routes. */
  readonly database: Database
  readonly url: string
  /** `Bearer …` of an owner, by number. */
  authorizationOf(owner: number): Promise<string>
  /** The statements that the routes send while `work` runs, except BEGIN and COMMIT. */
  recorded(work: () => Promise<void>): Promise<Statement[]>
  close(): Promise<void>
}

export interface Statement {
  readonly sql: string
  readonly values: readonly SqlValue[]
}

/** @param databaseUrl an empty database */
export async function openSite(databaseUrl: string, population: Population, progress: (what: string) => void): Promise<Site> {
  const database = await openServer({ url: databaseUrl, applicationName: 'benchmark', connectionsMax, prepares: true })
  let recording: Statement[] | undefined
  const recorder: Database = {
    ...database,
    query: (sql, values = [], asking) => {
      recording?.push({ sql, values })
      return database.query(sql, values, asking)
    },
  }
  const logger = createLogger({ level: 'silent', pretty: false })
  const lifetimeSeconds = 86_400
  const options = {
    users: { allowSelfRegister: true, registrationsPerHour: 0, boundSelfRegistered: false },
    tokens: { lifetimeSeconds },
    audit: { retentionDays: 365 },
    policies: { store: 'relational' },
    certificates: ownCertificates,
    compatibility: 'none',
  } as const
  const plane = await openControlPlane({ database: recorder, masterKeys, options, logger })
  await populate(database, population, progress)
  progress('keys')
  await giveKeys(database, openThingKeys(masterKeys), askedThings(population).map(thingAt))
  await settle(database)

  const app = createServer({ logger })
  await app.register(plane.routes)
  await app.listen({ host: '127.0.0.1', port: 0 })
  const tokens = openTokens([deriveKey(masterKeys[0], 'tokens')], { lifetimeSeconds })
  return {
    population,
    database,
    url: `http://127.0.0.1:${(app.server.address() as AddressInfo).port}`,
    authorizationOf: async owner => `Bearer ${await tokens.issue({ user: ownerAt(owner), version: 1 })}`,
    async recorded(work) {
      const statements: Statement[] = []
      recording = statements
      await work().finally(() => (recording = undefined))
      return statements
    },
    async close() {
      await app.close()
      await plane.close()
      await database.close()
    },
  }
}

/** Numbers of the things that a request may return: those of the requested owners, and the first ones of owner 0. */
export function askedThings(population: Population): number[] {
  const all = Array.from({ length: population.things }, (_, nth) => nth)
  return all.filter(nth => {
    const owner = ownerOfThing(population, nth)
    return owner === 0 ? nth < firstThings : owner <= askedOwners
  })
}
