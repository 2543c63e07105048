// Concurrent requests end as if they had run one after the other: all of a request or nothing, and nothing is left of deleted entities.

import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Database } from '../../database/database.ts'
import { type Answer, call } from '../up/operator.ts'
import { inconsistencies } from './consistency.ts'
import { describeOnDatabases, openPlatform, type Platform, type User } from './platform.ts'

/** Enough to see each order, on a server; the embedded database runs one transaction after the other anyway. */
const rounds = 10

describeOnDatabases('races', database => {
  let platform: Platform
  let owner: User
  let friend: User
  let other: User
  let administrator: string
  beforeAll(async () => {
    platform = await openPlatform(database(), { compatibility: '0.13' })
    ;[owner, friend, other] = [await platform.user(), await platform.user(), await platform.user()]
    administrator = await platform.administrator()
  })
  afterAll(() => platform?.close())

  const ask = (method: string, path: string, body?: object, authorization = owner.token, headers = {}): Promise<Answer> =>
    call(platform.url, method, path, { authorization, headers, ...(body === undefined ? {} : { body }) })
  const made = async (path: string, by = owner): Promise<string> => {
    const { headers } = await ask('POST', path, { name: 'made' }, by.token)
    return headers.get('location')!.split('/').at(-1)!
  }
  const thing = () => made('/things')
  const channel = () => made('/channels')
  const group = () => made('/groups')
  /** The statuses of the requests. The first is sent first in even rounds, and the last in odd ones. */
  async function atOnce(round: number, ...asking: (() => Promise<Answer>)[]): Promise<number[]> {
    const started = (round % 2 === 0 ? asking : asking.toReversed()).map(one => one())
    const answers = await Promise.all(started)
    return (round % 2 === 0 ? answers : answers.toReversed()).map(({ status }) => status)
  }
  const policiesOf = (object: string, subject: string) =>
    database().query('SELECT relation FROM control_plane.tuples WHERE object = $1 AND subject = $2', [object, subject])

  test('sharing and unsharing a thing: both rights or none, in policies and in access', async () => {
    const both = { user_ids: [friend.id, other.id], policies: ['read', 'write'] }
    const reversed = { user_ids: [other.id, friend.id], policies: ['write', 'read'] }
    const shared = await thing()
    for (let round = 0; round < rounds; round++) {
      const path = `/things/${shared}/share`
      expect(
        await atOnce(
          round,
          () => ask('POST', path, both),
          () => ask('DELETE', path, reversed),
        ),
      ).toEqual([200, 204])
      const rights = [...(await policiesOf(shared, friend.id)), ...(await policiesOf(shared, other.id))].length
      expect([0, 4]).toContain(rights)
      expect((await ask('GET', `/things/${shared}`, undefined, friend.token)).status).toBe(rights === 0 ? 403 : 200)
    }
    expect(await inconsistencies(database())).toEqual([])
  })

  test.each([
    ['a thing', (connected: { thing: string }) => `/things/${connected.thing}`],
    ['a channel', (connected: { channel: string }) => `/channels/${connected.channel}`],
  ])('connecting and deleting %s: no connection is left', async (_name, pathOf) => {
    for (let round = 0; round < rounds; round++) {
      const pair = { thing: await thing(), channel: await channel() }
      const body = { channel_ids: [pair.channel], thing_ids: [pair.thing] }
      const [connected, deleted] = await atOnce(
        round,
        () => ask('POST', '/connect', body),
        () => ask('DELETE', pathOf(pair)),
      )
      expect([200, 403]).toContain(connected)
      expect(deleted).toBe(204)
    }
    expect(await inconsistencies(database())).toEqual([])
  })

  test('creations with the same name: each creates all of its entities', async () => {
    for (let round = 0; round < 5; round++) {
      const by = await platform.user()
      const bodies = Array.from({ length: 20 }, () => ({ name: 'the same' }))
      const create = () => ask('POST', '/things/bulk', bodies, by.token)
      expect(await atOnce(round, create, create)).toEqual([201, 201])
      expect((await ask('GET', '/things', undefined, by.token)).json).toMatchObject({ total: 40 })
    }
  })

  test.each([
    ['id of a thing', '/things', () => ({ id: randomUUID() })],
    ['key of a thing', '/things', () => ({ key: `burnt-in:${randomUUID()}` })],
    ['id of a channel', '/channels', () => ({ id: randomUUID() })],
  ])('creations with the same given %s: one gets it, and the other creates nothing', async (_name, path, give) => {
    const both = [await platform.user(), await platform.user()]
    const totals = [0, 0]
    for (let round = 0; round < rounds; round++) {
      const given = give()
      const statuses = await atOnce(round, ...both.map(by => () => ask('POST', `${path}/bulk`, [{ name: 'beside' }, given], by.token)))
      expect(statuses.toSorted((one, next) => one - next)).toEqual([201, 409])
      totals[statuses.indexOf(201)]! += 2
      for (const [nth, by] of both.entries())
        expect((await ask('GET', path, undefined, by.token)).json).toMatchObject({ total: totals[nth] })
    }
    expect(await inconsistencies(database())).toEqual([])
  })

  test('rotating a key and giving the old one to another thing: it never belongs to both', async () => {
    for (let round = 0; round < rounds; round++) {
      const key = `burnt-in:${randomUUID()}`
      const { headers } = await ask('POST', '/things', { key })
      const path = `${headers.get('location')!}/key`
      const [rotated, given] = await atOnce(
        round,
        () => ask('PATCH', path, { grace_seconds: 600 }),
        () => ask('POST', '/things', { key }, friend.token),
      )
      expect(rotated).toBe(200)
      expect(given).toBe(409)
    }
    expect(await inconsistencies(database())).toEqual([])
  })

  test('two rotations of one version: one key, and a 412', async () => {
    for (let round = 0; round < rounds; round++) {
      const id = await thing()
      const rotate = () => ask('PATCH', `/things/${id}/key`, {}, owner.token, { 'if-match': '"1"' })
      const answers = await Promise.all([rotate(), rotate()])
      expect(answers.map(({ status }) => status).toSorted((one, next) => one - next)).toEqual([200, 412])
      const { key } = answers.find(({ status }) => status === 200)!.json!
      expect((await ask('GET', `/things/${id}`)).json).toMatchObject({ key })
    }
  })

  interface Made {
    readonly users: string
    readonly things: string
    readonly thing: string
  }
  const groupOf = ({ things }: Made) => `/groups/${things}`
  const thingOf = ({ thing: id }: Made) => `/things/${id}`
  const members = ({ things }: Made, type: string, ids: string[]) => ask('POST', `/groups/${things}/members`, { type, members: ids })
  const policy = (object: string) =>
    ask('POST', '/policies', { subjects: [friend.id], object, policies: ['member', 'read'] }, administrator)

  test.each<[string, string, (at: Made) => string, (at: Made) => Promise<Answer>]>([
    ['a group', 'users become members', groupOf, at => members(at, 'users', [friend.id, other.id])],
    ['a group', 'a thing is added to it', groupOf, at => members(at, 'things', [at.thing])],
    ['a group', 'it is shared', groupOf, at => ask('POST', `/groups/${at.users}/share`, { thing_group_id: at.things })],
    ['a group', 'another is shared with it', groupOf, at => ask('POST', `/groups/${at.things}/share`, { thing_group_id: at.users })],
    ['a group', 'the administrator adds a member', groupOf, at => policy(at.things)],
    ['a thing', 'it is added to a group', thingOf, at => members(at, 'things', [at.thing])],
    ['a thing', 'it is shared', thingOf, at => ask('POST', `/things/${at.thing}/share`, { user_ids: [friend.id], policies: ['read'] })],
    ['a thing', 'the administrator gives rights on it', thingOf, at => policy(at.thing)],
  ])('%s is deleted while %s: nothing is left of it', async (_name, _what, pathOf, change) => {
    for (let round = 0; round < rounds; round++) {
      const at = { users: await group(), things: await group(), thing: await thing() }
      const [deleted, changed] = await atOnce(
        round,
        () => ask('DELETE', pathOf(at)),
        () => change(at),
      )
      expect(deleted).toBe(204)
      expect([200, 201, 403, 404]).toContain(changed)
    }
    expect(await inconsistencies(database())).toEqual([])
  })

  test('a thing is added to a group and removed: its members have all rights on it or none', async () => {
    const [id, of] = [await thing(), await group()]
    const body = { type: 'things', members: [id] }
    for (let round = 0; round < 2 * rounds; round++) {
      const path = `/groups/${of}/members`
      expect(
        await atOnce(
          round,
          () => ask('POST', path, body),
          () => ask('DELETE', path, body),
        ),
      ).toEqual([200, 204])
      expect(await inconsistencies(database())).toEqual([])
    }
  })

  test('users become members and are removed: all of them or none', async () => {
    const of = await group()
    for (let round = 0; round < rounds; round++) {
      const path = `/groups/${of}/members`
      const add = { type: 'users', members: [friend.id, other.id] }
      expect(
        await atOnce(
          round,
          () => ask('POST', path, add),
          () => ask('DELETE', path, { members: add.members.toReversed() }),
        ),
      ).toEqual([200, 204])
      expect([0, 2]).toContain([...(await policiesOf(of, friend.id)), ...(await policiesOf(of, other.id))].length)
    }
  })

  test("a user's policies are removed while a thing is shared with them: all of them or none", async () => {
    const id = await thing()
    for (let round = 0; round < rounds; round++) {
      const policies = ['read', 'write', 'delete']
      const statuses = await atOnce(
        round,
        () => ask('POST', `/things/${id}/share`, { user_ids: [friend.id], policies }),
        () => ask('PUT', '/policies', { subjects: [friend.id], object: id, policies: policies.toReversed() }, administrator),
      )
      expect(statuses).toEqual([200, 204])
      expect([0, 3]).toContain((await policiesOf(id, friend.id)).length)
    }
  })

  test('a user is disabled while they create things: none of their keys is accepted', async () => {
    for (let round = 0; round < 5; round++) {
      const user = await platform.user()
      const site = await made('/channels', user)
      const create = () => ask('POST', '/things/bulk', [{ name: 'one' }, { name: 'two' }], user.token)
      const disable = () => ask('PUT', `/users/${user.id}/disabled`, { disabled: true }, administrator)
      const answers = await Promise.all(round % 2 === 0 ? [create(), disable(), create()] : [disable(), create(), create()])
      for (const { status } of answers) expect([201, 204, 401]).toContain(status)
      const keys = answers.flatMap(({ json }) => (json?.['things'] ?? []) as { key: string }[])
      await database().query(
        'INSERT INTO control_plane.connections (thing, channel) SELECT id, $1 FROM control_plane.things WHERE owner = $2',
        [site, user.id],
      )
      for (const { key } of keys) {
        const credential = { scheme: 'Thing', secret: key } as const
        for (const action of ['publish', 'read'] as const)
          expect(await platform.plane.access.authorize({ credential, channel: site, action })).toMatchObject({
            allowed: false,
            reason: 'forbidden',
          })
      }
    }
  })

  describe('a change that another one overtakes half-way', () => {
    /** Runs the first up to its first policy with the right to write, the second as far as it gets meanwhile, and then both to their ends. */
    async function overtaken(first: () => Promise<Answer>, second: () => Promise<Answer>): Promise<number[]> {
      if (database().kind === 'embedded') return [(await first()).status, (await second()).status]
      const begun: Promise<Answer>[] = []
      await database().transaction(async holding => {
        await holding.query('SELECT pg_advisory_xact_lock(1)')
        begun.push(first())
        await lockWaiters(database(), 1)
        let isDone = false
        const other = second().finally(() => (isDone = true))
        begun.push(other)
        await Promise.race([other, lockWaiters(database(), 2, () => isDone)])
      })
      return (await Promise.all(begun)).map(({ status }) => status)
    }

    beforeAll(() =>
      database().execute(`
        CREATE FUNCTION control_plane.pause() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_xact_lock_shared(1); RETURN NEW; END $$;
        CREATE TRIGGER pause BEFORE INSERT ON control_plane.tuples FOR EACH ROW WHEN (NEW.relation = 'write') EXECUTE FUNCTION control_plane.pause()`),
    )
    afterAll(() => database().execute('DROP FUNCTION control_plane.pause CASCADE'))

    test('a thing in a group is added again and removed', async () => {
      const [id, of] = [await thing(), await group()]
      const [path, body] = [`/groups/${of}/members`, { type: 'things', members: [id] }]
      expect((await ask('POST', path, body)).status).toBe(200)
      expect(
        await overtaken(
          () => ask('POST', path, body),
          () => ask('DELETE', path, body),
        ),
      ).toEqual([200, 204])
      expect(await inconsistencies(database())).toEqual([])
    })

    test.each<[string, (id: string, body: object) => readonly [string, string, object, string?]]>([
      ['by the user who shared it', (id, body) => ['DELETE', `/things/${id}/share`, { user_ids: [friend.id], ...body }]],
      ['by the administrator', (id, body) => ['PUT', '/policies', { subjects: [friend.id], object: id, ...body }, administrator]],
    ])('a shared thing is shared again, and all rights are removed %s', async (_name, take) => {
      const id = await thing()
      const rights = { policies: ['read', 'write', 'delete'] }
      const share = () => ask('POST', `/things/${id}/share`, { user_ids: [friend.id], ...rights })
      expect((await share()).status).toBe(200)
      expect(await overtaken(share, () => ask(...take(id, rights)))).toEqual([200, 204])
      expect(await policiesOf(id, friend.id)).toEqual([])
    })
  })

  test('a change whose locks deadlock succeeds all the same', async () => {
    const [connected, on] = [await thing(), await channel()]
    const connect = () => ask('POST', '/connect', { channel_ids: [on], thing_ids: [connected] })
    let begun: Promise<Answer> | undefined
    await database().transaction(async holding => {
      // The embedded database has one connection, which cannot deadlock.
      if (database().kind === 'embedded') return
      await holding.query('SELECT FROM control_plane.things WHERE id = $1 FOR UPDATE', [connected])
      begun = connect()
      await lockWaiters(database(), 1)
      // The transaction that detects the deadlock is rolled back: that of the request, which checks for one after a second.
      await holding.query("SET LOCAL deadlock_timeout = '30s'")
      await holding.query('SELECT FROM control_plane.channels WHERE id = $1 FOR UPDATE', [on])
    })
    expect((await (begun ?? connect())).status).toBe(200)
  })

  test('many changes of few things, channels and groups: each is done or refused, and the tables are consistent', async () => {
    const random = openRandom(7)
    const pick = <Item>(items: readonly Item[]): Item => items[random(items.length)]!
    /** Some of them, in any order. */
    const some = (items: readonly string[]): string[] => items.toSorted(() => random(2) - 0.5).slice(random(items.length))
    const things = await Promise.all(Array.from({ length: 5 }, thing))
    const channels = await Promise.all(Array.from({ length: 4 }, channel))
    const groups = await Promise.all(Array.from({ length: 4 }, group))
    const users = [friend.id, other.id, owner.id]
    const pairs = () => ({ channel_ids: some(channels), thing_ids: some(things) })
    const shared = () => ({ user_ids: some([friend.id, other.id]), policies: some(['read', 'write', 'delete']) })
    const member = (type: string, members: readonly string[]) => ({ type, members: some(members) })
    const policies = () => ({ subjects: some([friend.id, other.id]), object: pick(things), policies: some(['read', 'delete']) })
    /** The new one is created first, so that others rarely name deleted ones. */
    async function replace(ids: string[], path: string): Promise<Answer> {
      const [nth, fresh] = [random(ids.length), await made(path)]
      const [old] = ids.splice(nth, 1, fresh)
      return ask('DELETE', `${path}/${old}`)
    }
    const links: readonly (() => Promise<Answer>)[] = [
      () => ask('POST', '/connect', pairs()),
      () => ask('PUT', '/disconnect', pairs()),
      () => ask('POST', `/things/${pick(things)}/share`, shared()),
      () => ask('DELETE', `/things/${pick(things)}/share`, shared()),
      () => ask('POST', `/groups/${pick(groups)}/members`, member('things', things)),
      () => ask('DELETE', `/groups/${pick(groups)}/members`, member('things', things)),
      () => ask('POST', `/groups/${pick(groups)}/members`, member('users', users)),
      () => ask('DELETE', `/groups/${pick(groups)}/members`, member('users', users)),
      () => ask('POST', `/groups/${pick(groups)}/share`, { thing_group_id: pick(groups) }),
      () => ask('DELETE', `/groups/${pick(groups)}/share`, { thing_group_id: pick(groups) }),
      () => ask('POST', '/policies', policies(), administrator),
      () => ask('PUT', '/policies', policies(), administrator),
    ]
    const others: readonly (() => Promise<Answer>)[] = [
      () => ask('PATCH', `/things/${pick(things)}/key`, { grace_seconds: random(2) }),
      () => ask('PUT', `/things/${pick(things)}`, { name: 'changed' }),
      () => replace(things, '/things'),
      () => replace(channels, '/channels'),
      () => replace(groups, '/groups'),
    ]
    const answers: Answer[] = []
    async function work(): Promise<void> {
      for (let count = 0; count < 20; count++) answers.push(await pick(random(4) === 0 ? others : links)())
    }
    await Promise.all(Array.from({ length: 20 }, work))
    expect(answers.filter(({ status }) => ![200, 201, 204, 403, 404].includes(status)).map(({ text }) => text)).toEqual([])
    // Otherwise nothing would have waited for them.
    expect(answers.filter(({ status }) => status < 300).length).toBeGreaterThan(answers.length / 2)
    expect(await inconsistencies(database())).toEqual([])
  })
})

/** Resolves when that many statements wait for a lock. */
async function lockWaiters(database: Database, count: number, isOver = () => false): Promise<void> {
  const sql = `SELECT count(*) AS n FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`
  while (!isOver() && (await database.query<{ n: bigint }>(sql))[0]!.n < BigInt(count)) await new Promise(resolve => setTimeout(resolve, 5))
}

/** The same numbers for the same seed. */
function openRandom(seed: number): (below: number) => number {
  let state = seed
  return below => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
}
