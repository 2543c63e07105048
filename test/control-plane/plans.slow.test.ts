// No statement of the control plane reads a whole large table: the plans of all statements of its routes, with a million things (in the gate a tenth).
//
// Every route of the description is called by an average owner and by one with a tenth of all things. The statements sent meanwhile are explained: for
// their values, and as PostgreSQL plans them once for all values.

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { countedMax } from '../../control-plane/audit/store.ts'
import { openThingKeys } from '../../control-plane/things/keys.ts'
import type { Database } from '../../database/database.ts'
import { openServer } from '../../database/server.ts'
import { isDeep } from '../depth.ts'
import { describeWithOwnPostgres } from '../servers/postgres.ts'
import { call, expectStatus } from '../up/operator.ts'
import { openAsker } from './isolation/asker.ts'
import { ask, substitutionsOf } from './isolation/matrix.ts'
import { statusFor } from './isolation/row.ts'
import { controlPlaneRows, routesOf } from './isolation/rows.ts'
import { makeSite, openWorld, type World } from './isolation/world.ts'
import { type Answered, largeTables, type Plan, plannedFor, planOf, recording, rowsRead, type Tables, tablesReadWhole } from './plans.ts'
import { administrator, masterKey, openPlatform, type Platform } from './platform.ts'
import {
  channelAt,
  deviceAt,
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

/** Reading that many rows takes milliseconds, and more as the table grows. */
const largeRows = 10_000
/** So that users, groups and API keys are large tables too. With a million things the plans are those of a large site; a tenth shows most of them. */
const population = { ...populationOf(isDeep ? 1_000_000 : 100_000), owners: 10_000 }
/** The largest page of a request. */
const pageRowsMax = 100
const auditLines = 300_000
/** How many things of others a user may read. */
const sharedRowsMax = 10_000
/** The owner of a tenth of the things, and one with a hundred. */
const owners = [0, 2]

/** With so few things PostgreSQL rather reads these tables than their indexes. */
const smallTables = [
  { route: 'GET /groups/things/{group}', table: 'things' },
  { route: 'GET /certs/crl', table: 'certificates' },
]

/**
 * Statements that may read a whole table: the administrator's list counts all users, and finds a part of an email; a start counts, once, the
 * external keys that need a master key that is not given.
 */
const wholeTables: readonly { readonly route: string; readonly table: string }[] = [
  { route: 'GET /users', table: 'users' },
  { route: 'start', table: 'bootstrap_configs' },
  { route: 'start', table: 'mappings' },
  ...(isDeep ? [] : smallTables),
]

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

describeWithOwnPostgres(
  'the control plane with many things',
  postgres => {
    let database: Database
    let platform: Platform
    /** While the master key is replaced, a thing's key has two look-ups. */
    let withTwoKeys: Platform
    let route = 'start'
    const sent: (Answered & { readonly route: string })[] = []
    const asked = new Set<string>()

    beforeAll(async () => {
      database = await openServer({ url: await postgres.createDatabase(), applicationName: 'sluice-test', connectionsMax: 8 })
      const recorded = recording(database, statement => sent.push({ ...statement, route }))
      platform = await openPlatform(recorded)
      withTwoKeys = await openPlatform(recorded, { masterKeys: [Buffer.alloc(32, 8), masterKey], compatibility: '0.13' })
      await populate(database, population)
      const things = Array.from({ length: population.things }, (_, nth) => nth).filter(nth =>
        owners.includes(ownerOfThing(population, nth)),
      )
      await giveKeys(database, openThingKeys([masterKey]), things.map(thingAt))
      // A year of it; all users change their things, and keys are rarely issued.
      await database.execute(`
        INSERT INTO control_plane.audit (at, actor, action, objects, relations)
        SELECT now() - n * interval '100 seconds', owner, CASE WHEN n % 1000 = 0 THEN 'key.issue' ELSE 'thing.update' END, ARRAY[id::text], '{}'
        FROM (SELECT row_number() OVER () AS n, id, owner FROM control_plane.things LIMIT ${auditLines}) AS lines`)
      await database.execute('VACUUM ANALYZE')
    }, 600_000)
    afterAll(async () => {
      await platform?.close()
      await withTwoKeys?.close()
      await database?.close()
    })

    /** The owner of that number in place of the one that every world has, with what they have. */
    async function worldOf(owner: number): Promise<World> {
      const asker = openAsker(platform.url)
      const world = await openWorld({ asker, administrator, masterKey })
      const block = firstBlockOf(population, owner)
      const [id, email, { password }] = [ownerAt(owner), `owner-${owner}@sluice.example`, world.users.stranger]
      await database.query(
        `UPDATE control_plane.users SET password_hash = (SELECT password_hash FROM control_plane.users WHERE id = $2) WHERE id = $1`,
        [id, world.users.stranger.id],
      )
      const signIn = async (): Promise<string> =>
        `Bearer ${String((await asker.call('POST', '/tokens', { body: { email, password } })).json!['token'])}`
      let token = await signIn()
      const { apiKey, certificate } = await makeSite(asker, token)
      const [thing, otherThing, leftThing] = [0, 1, 2].map(nth => ({ id: thingAt(100 * block + nth), name: '', key: '' }))
      return {
        ...world,
        users: { ...world.users, owner: { id, email, password, token } },
        site: {
          thing: thing!,
          otherThing: otherThing!,
          leftThing: leftThing!,
          channel: channelAt(10 * block),
          otherChannel: channelAt(10 * block + 1),
          thingsGroup: thingsGroupAt(owner),
          usersGroup: usersGroupAt(owner),
          apiKey,
          certificate,
          device: { id: deviceAt(100 * block), key: '' },
        },
        authorization: caller => (caller === 'owner' ? token : world.authorization(caller)),
        freshSite: () => makeSite(asker, token),
        renew: async () => void (token = await signIn()),
      }
    }

    test('every route is called, and every access of things and users', async () => {
      for (const owner of owners) {
        const world = await worldOf(owner)
        for (const row of controlPlaneRows) {
          route = 'site'
          const site = row.changes === 'site' ? await world.freshSite() : world.site
          route = row.route
          asked.add(route)
          const caller = row.allowed.includes('owner') ? 'owner' : 'administrator'
          await row.prepare?.({ world, site, caller })
          const good = row.request({ world, site, caller })
          await expectStatus(ask(world, row, caller, good), statusFor(row, caller))
          for (const query of row.queries ?? [])
            await expectStatus(ask(world, row, caller, { ...good, query: Object.fromEntries(new URLSearchParams(query)) }), row.status)
          for (const { caller: other, requests } of substitutionsOf(world, row, world.site))
            for (const request of Object.values(requests)) await ask(world, row, other, request)
        }
        route = 'a device'
        const { device } = await world.freshSite()
        const asDevice = { authorization: `Thing ${device.key}` }
        await expectStatus(call(platform.url, 'GET', `/things/bootstrap/${device.id}`, asDevice), 200)
        await expectStatus(call(platform.url, 'POST', `/things/bootstrap/${device.id}/ack`, asDevice), 204)
        // Last: from here on the other master key is needed.
        await expectStatus(call(withTwoKeys.url, 'GET', `/things/bootstrap/${device.id}`, asDevice), 200)
        route = 'access'
        const address = '192.0.2.1'
        for (const credential of [
          { scheme: 'Thing', secret: 'none' },
          { scheme: 'Bearer', secret: world.authorization('owner')!.replace('Bearer ', '') },
          { scheme: 'Bearer', secret: 'sluice_none' },
        ] as const)
          for (const { plane } of [platform, withTwoKeys])
            await plane.access.authorize({ credential, channel: world.site.channel, action: 'read', address })
        route = 'a given key'
        const given = { authorization: world.authorization('owner')!, body: { key: `burnt-in-to-a-thing-of-${owner}` } }
        await expectStatus(call(withTwoKeys.url, 'POST', '/things', given), 201)
      }
      expect([...asked].sort()).toEqual(await routesOf(platform.plane.routes))
    })

    test('no statement returns more rows than a page has, for any caller', () => {
      const longer = sent.filter(({ rows, sql }) => rows > (sql.includes('DISTINCT object') ? sharedRowsMax : pageRowsMax))
      expect([...new Set(longer.map(({ route: of, rows, sql }) => `${of}: ${rows} rows of ${oneLine(sql)}`))]).toEqual([])
    })

    test('a check looks up the groups of its subject, and not all subjects with the relation', async () => {
      const checks = sent.filter(({ sql, values }) => sql.includes('RECURSIVE') && values.includes('users'))
      expect(checks).not.toEqual([])
      for (const check of checks) {
        for (const planned of plannedFor) expect(await rowsRead(database, check, planned, 'tuples')).toBeLessThan(50)
      }
    })

    test('a page of the audit log reads only the rows that it shows, and by object only the rows of that object', async () => {
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
        'bootstrap_configs',
        'certificates',
        'channels',
        'connections',
        'group_things',
        'groups',
        'mappings',
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
