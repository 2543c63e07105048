// No statement of the control plane reads a whole large table: the plans of all that its routes send, with a million things.
//
// Every route of the description is called by an owner like most and by one with a tenth of all things. What is sent meanwhile is explained: for its values,
// and as it is planned once for all of them.

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openapiRoutes } from '../../config/http/openapi.ts'
import { createServer } from '../../config/http/server.ts'
import type { Database } from '../../config/postgres/database.ts'
import { openServer } from '../../config/postgres/server.ts'
import { deriveKey } from '../../config/secrets.ts'
import { countedMax } from '../../control-plane/audit/store.ts'
import { openThingKeys } from '../../control-plane/things/keys.ts'
import { openTokens } from '../../control-plane/tokens/store.ts'
import { describeWithPostgres } from '../servers/postgres.ts'
import { askEveryRoute, openAsk } from './every-route.ts'
import { type Answered, largeTables, type Plan, plannedFor, planOf, recording, rowsRead, type Tables, tablesReadWhole } from './plans.ts'
import { masterKey, openPlatform, type Platform, recordingLogger } from './platform.ts'
import {
  channelAt,
  firstBlockOf,
  giveKeys,
  ownerAt,
  ownerOfThing,
  populate,
  populationOf,
  thingAt,
  thingsGroupAt,
  usersGroupAt,
} from './population.ts'

/** Reading so many rows takes milliseconds, and more with each that comes. */
const largeRows = 10_000
/** So that users, groups and API keys are as many too. */
const population = { ...populationOf(1_000_000), owners: 10_000 }
/** What a request asks for at most. */
const pageRowsMax = 100
const auditLines = 300_000
/** What of others one may read. */
const sharedRowsMax = 10_000
/** The owner of a tenth of the things, and one with a hundred. */
const owners = [0, 2]
const stranger = 5

/** What asks for a whole table: the administrator's list of users tells how many they are, and finds a part of an email. */
const wholeTables: readonly { readonly route: string; readonly table: string }[] = [{ route: 'GET /users', table: 'users' }]

const oneLine = (sql: string): string => sql.replace(/\s+/g, ' ').trim()

describe('what reads a whole table', () => {
  const tables: Tables = new Map([['things', new Map([['things_owner', 'owner']])]])
  const scan = { 'Node Type': 'Seq Scan', 'Relation Name': 'things' }
  const index = { 'Node Type': 'Index Only Scan', 'Relation Name': 'things', 'Index Name': 'things_owner' }
  const bitmap = (condition: string) => ({
    'Node Type': 'Bitmap Heap Scan',
    'Relation Name': 'things',
    Plans: [{ 'Node Type': 'Bitmap Index Scan', 'Index Name': 'things_owner', 'Index Cond': condition }],
  })
  test.each<[string, Plan, string[]]>([
    ['a scan of it', scan, ['things']],
    ['a scan below other nodes', { 'Node Type': 'Limit', Plans: [{ 'Node Type': 'Sort', Plans: [scan] }] }, ['things']],
    ['an index without a condition', index, ['things']],
    ['an index with a condition on another column than its first', { ...index, 'Index Cond': '(ordinal > 5)' }, ['things']],
    ['a bitmap of such an index', bitmap('(ordinal > 5)'), ['things']],
    ['but no range of an index', { ...index, 'Index Cond': '(owner = $1)' }, []],
    ['and no bitmap of one', bitmap('(owner = $1)'), []],
    ['and no scan of a small table', { ...scan, 'Relation Name': 'installation' }, []],
  ])('%s', (_name, plan, read) => expect(tablesReadWhole(plan, tables)).toEqual(read))
})

describeWithPostgres(
  'the control plane with a million things',
  postgres => {
    let database: Database
    let platform: Platform
    let route = 'start'
    const sent: (Answered & { readonly route: string })[] = []
    const asked = new Set<string>()

    beforeAll(async () => {
      database = await openServer({ url: await postgres.createDatabase(), applicationName: 'sluice-test', connectionsMax: 8 })
      platform = await openPlatform(recording(database, statement => sent.push({ ...statement, route })))
      await populate(database, population)
      const things = Array.from({ length: population.things }, (_, nth) => nth).filter(nth =>
        owners.includes(ownerOfThing(population, nth)),
      )
      await giveKeys(database, openThingKeys([masterKey]), things.map(thingAt))
      // A year of it; who changes their things is any of them, and keys are rarely issued.
      await database.execute(`
        INSERT INTO control_plane.audit (at, actor, action, objects, relations)
        SELECT now() - n * interval '100 seconds', owner, CASE WHEN n % 1000 = 0 THEN 'key.issue' ELSE 'thing.update' END, ARRAY[id::text], '{}'
        FROM (SELECT row_number() OVER () AS n, id, owner FROM control_plane.things LIMIT ${auditLines}) AS lines`)
      await database.execute('VACUUM ANALYZE')
    })
    afterAll(async () => {
      await platform?.close()
      await database?.close()
    })

    test('every route is asked, and what accesses of things and users ask', async () => {
      const tokens = openTokens([deriveKey(masterKey, 'tokens')], { lifetimeSeconds: 3600 })
      const administrator = await platform.administrator()
      for (const owner of owners) {
        const block = firstBlockOf(population, owner)
        const [thing, channel] = [block * 100, block * 10]
        const token = await tokens.issue({ user: ownerAt(owner), version: 1 })
        const ask = openAsk(platform.url, `Bearer ${token}`, called => {
          route = called
          asked.add(called)
        })
        await askEveryRoute(ask, {
          ownerId: ownerAt(owner),
          things: [thingAt(thing), thingAt(thing + 1)],
          channels: [channelAt(channel), channelAt(channel + 1)],
          usersGroup: usersGroupAt(owner),
          thingsGroup: thingsGroupAt(owner),
          foreignThing: thingAt(100 * firstBlockOf(population, stranger)),
          administrator,
          user: await platform.user(),
        })
        route = 'access'
        const address = '192.0.2.1'
        for (const credential of [
          { scheme: 'Thing', secret: 'none' },
          { scheme: 'Bearer', secret: token },
          { scheme: 'Bearer', secret: 'sluice_none' },
        ] as const)
          await platform.plane.access.authorize({ credential, channel: channelAt(channel), action: 'read', address })
      }
      const described = createServer({ logger: recordingLogger().logger })
      openapiRoutes(described, { version: '0' })
      await described.register(platform.plane.routes)
      const { paths } = (await described.inject('/openapi.json')).json<{ paths: Record<string, Record<string, object>> }>()
      await described.close()
      const all = Object.entries(paths).flatMap(([path, methods]) => Object.keys(methods).map(method => `${method.toUpperCase()} ${path}`))
      expect([...asked].sort()).toEqual(all.sort())
    })

    test('no statement answers more than a page has, whoever asks', () => {
      const longer = sent.filter(({ rows, sql }) => rows > (sql.includes('DISTINCT object') ? sharedRowsMax : pageRowsMax))
      expect([...new Set(longer.map(({ route: of, rows, sql }) => `${of}: ${rows} rows of ${oneLine(sql)}`))]).toEqual([])
    })

    test('a check looks up whom its subject leads to, and not all who have the relation', async () => {
      const checks = sent.filter(({ sql, values }) => sql.includes('RECURSIVE') && values.includes('users'))
      expect(checks).not.toEqual([])
      for (const check of checks) {
        for (const planned of plannedFor) expect(await rowsRead(database, check, planned, 'tuples')).toBeLessThan(50)
      }
    })

    test('a page of the audit log reads what it shows, and by an object what is told of that', async () => {
      const pages = sent.filter(({ route: of, sql }) => of === 'GET /audit' && sql.includes('matching'))
      expect(pages.filter(({ sql }) => sql.includes('objects @>'))).not.toEqual([])
      for (const page of pages) {
        const most = page.sql.includes('count(*)') ? countedMax : page.sql.includes('objects @>') ? 50 : pageRowsMax + 100
        for (const planned of plannedFor)
          expect(await rowsRead(database, page, planned, 'audit'), `${oneLine(page.sql)} ${planned}`).toBeLessThanOrEqual(most)
      }
    })

    test('no statement reads a whole large table', async () => {
      const tables = await largeTables(database, largeRows)
      expect([...tables.keys()].sort()).toEqual([
        'api_keys',
        'audit',
        'channels',
        'connections',
        'group_things',
        'groups',
        'things',
        'tuples',
        'users',
      ])
      const read = new Set<string>()
      for (const statement of sent) {
        for (const planned of plannedFor) {
          for (const table of tablesReadWhole(await planOf(database, statement, planned), tables)) {
            if (wholeTables.some(whole => whole.route === statement.route && whole.table === table)) continue
            read.add(`${statement.route} reads all of ${table}, planned for ${planned}: ${oneLine(statement.sql)}`)
          }
        }
      }
      expect([...read]).toEqual([])
    })
  },
  { settings: { shared_buffers: '1GB', max_wal_size: '8GB', work_mem: '64MB' } },
)
