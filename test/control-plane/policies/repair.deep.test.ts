// Adding missing automatic policies, in both policy stores: what is added, what is skipped, and concurrent deletions.

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openAccessChanges } from '../../../control-plane/access-changes.ts'
import { openAuditLog } from '../../../control-plane/audit/store.ts'
import type { ThingId } from '../../../control-plane/ids.ts'
import type { ControlPlaneOptions } from '../../../control-plane/options.ts'
import { openOpenFga } from '../../../control-plane/policies/openfga/store.ts'
import type { Policy, PolicyObject, PolicyStore } from '../../../control-plane/policies/policy-store.ts'
import { openRelationalPolicies } from '../../../control-plane/policies/relational.ts'
import { type RepairOptions, repairPolicies } from '../../../control-plane/policies/repair.ts'
import { openWrites } from '../../../control-plane/writes.ts'
import type { Database } from '../../../database/database.ts'
import { describeWithOpenFga } from '../../servers/openfga.ts'
import { type Answer, call } from '../../up/operator.ts'
import { describeOnDatabases, openPlatform, ownPolicies, type Platform, recordingLogger, type User } from '../platform.ts'
import { optionsOf } from './openfga/openfga-options.ts'

type Options = ControlPlaneOptions['policies']
type Store = PolicyStore & { close?(): Promise<void> }

const openStore = (database: Database, options: Options): Store =>
  options.store === 'relational' ? openRelationalPolicies(database) : openOpenFga(database, options.openfga, recordingLogger().logger)

describeOnDatabases('repair of policies', database => repairSuite(database, () => ownPolicies))
describeWithOpenFga('OpenFGA', openfga => {
  describeOnDatabases('repair of policies', database => repairSuite(database, () => optionsOf(openfga)))
})

function repairSuite(database: () => Database, policiesOptions: () => Options): void {
  let platform: Platform
  let store: Store
  beforeAll(async () => {
    platform = await openPlatform(database(), { policies: policiesOptions() })
    store = openStore(database(), policiesOptions())
  })
  afterAll(async () => {
    await platform?.close()
    await store?.close?.()
  })

  const ask = (by: User, method: string, path: string, body?: object): Promise<Answer> =>
    call(platform.url, method, path, { authorization: by.token, ...(body === undefined ? {} : { body }) })
  const make = async (by: User, path: string): Promise<string> =>
    (await ask(by, 'POST', path, { name: 'x' })).headers.get('location')!.split('/').at(-1)!
  const createThing = async (by: User): Promise<number> => (await ask(by, 'POST', '/things', { name: 'x' })).status
  const view = async (by: User, thing: string): Promise<number> => (await ask(by, 'GET', `/things/${thing}`)).status
  const onlyMissing = (): boolean => policiesOptions().store === 'relational'

  async function repair(options: Partial<RepairOptions> = {}): Promise<Record<string, number>> {
    const audit = openAuditLog(database(), { retentionDays: 365 })
    const writes = openWrites({ policies: store, audit, accessChanges: openAccessChanges(recordingLogger().logger) })
    const parts = { dryRun: false, onlyMissing: onlyMissing(), onProgress: () => undefined, ...options }
    const repaired = await repairPolicies(database(), writes, parts)
    return Object.fromEntries(repaired.map(({ name, policies }) => [name, policies]))
  }
  /** The policies of these objects, and those of the user on `users`. */
  async function policiesOf(user: User, objects: readonly string[]): Promise<string[]> {
    const lists = await Promise.all(objects.map(object => store.list({ object: object as PolicyObject })))
    const membership = await store.list({ object: 'users', subject: user.id as never })
    return [...lists.flat(), ...membership].map(({ subject, relation, object }) => `${object}#${relation}@${subject}`).sort()
  }
  async function linesOfAudit(): Promise<number> {
    const sql = `SELECT count(*) AS lines FROM control_plane.audit WHERE action = 'policy.repair'`
    return Number((await database().query<{ lines: bigint }>(sql))[0]!.lines)
  }

  /** An owner with a thing in a group of which a friend is a member, all of whose policies but the friend's membership are gone. */
  async function stripped() {
    const [owner, friend] = [await platform.user(), await platform.user()]
    const [thing, group] = [(await make(owner, '/things')) as ThingId, await make(owner, '/groups')]
    await ask(owner, 'POST', `/groups/${group}/members`, { type: 'users', members: [friend.id] })
    await ask(owner, 'POST', `/groups/${group}/members`, { type: 'things', members: [thing] })
    const before = await policiesOf(owner, [thing, group])
    const friendship: Policy = { subject: friend.id as never, relation: 'member', object: group as never }
    await store.transaction(async (_, policyWriter) => {
      await policyWriter.removeAll({ object: thing })
      await policyWriter.removeAll({ object: group as never })
      await policyWriter.remove([{ subject: owner.id as never, relation: 'member', object: 'users' }])
    })
    await store.transaction((_, policyWriter) => policyWriter.add([friendship]))
    return { owner, friend, thing, group, before }
  }

  test('after a repair users, things and groups have the policies that creation gives them, and access works again', async () => {
    const { owner, friend, thing, group, before } = await stripped()
    expect([await createThing(owner), await view(owner, thing), await view(friend, thing)]).toEqual([403, 403, 403])
    await repair()
    expect(await policiesOf(owner, [thing, group])).toEqual(before)
    expect([await createThing(owner), await view(owner, thing), await view(friend, thing)]).toEqual([201, 200, 200])
  })

  test('a second run changes nothing, and with the policies in the database it adds none and leaves no line', async () => {
    const { owner, thing, group } = await stripped()
    const first = await repair()
    const [lines, policies] = [await linesOfAudit(), await policiesOf(owner, [thing, group])]
    const second = await repair()
    expect(await policiesOf(owner, [thing, group])).toEqual(policies)
    if (onlyMissing()) {
      expect([first, second].map(counts => Object.values(counts).reduce((sum, count) => sum + count, 0))).toEqual([8, 0])
      expect(await linesOfAudit()).toBe(lines)
    } else expect(second).toEqual(first)
  })

  test('a dry run counts the same and adds nothing', async () => {
    const { owner, thing } = await stripped()
    const lines = await linesOfAudit()
    const counted = await repair({ dryRun: true })
    expect([await createThing(owner), await view(owner, thing), await linesOfAudit()]).toEqual([403, 403, lines])
    expect(await repair()).toEqual(counted)
  })

  test('more than a batch is repaired in transactions of a thousand, each with its line', async () => {
    await repair()
    const lines = await linesOfAudit()
    await database().query(
      `INSERT INTO control_plane.users (id, email, password_hash) SELECT gen_random_uuid(), $1 || n, 'none' FROM generate_series(1, 2100) AS n`,
      [`many-${Math.random()}-`],
    )
    const { users } = await repair()
    expect(users! >= 2100).toBe(true)
    const audited = await database().query<{ objects: string[]; relations: string[] }>(
      `SELECT objects, relations FROM control_plane.audit WHERE action = 'policy.repair' ORDER BY id OFFSET $1`,
      [lines],
    )
    const userLines = audited.filter(({ objects }) => objects.includes('users'))
    expect(userLines.map(({ objects, relations }) => [objects.length <= 1001, relations])).toEqual([1, 2, 3].map(() => [true, ['member']]))
  })

  describe('beside an instance', () => {
    test.each([
      ['a thing', 'DELETE FROM control_plane.things WHERE id = $1'],
      ['the membership of a thing', 'DELETE FROM control_plane.group_things WHERE thing = $1'],
    ])('%s that is deleted at that moment gets no policies', async (what, sql) => {
      // The embedded database runs one transaction after the other.
      if (database().kind === 'embedded') return
      const { thing, group } = await stripped()
      const deleting = Promise.withResolvers<void>()
      const deleted = Promise.withResolvers<void>()
      const transaction = database().transaction(async queries => {
        await queries.query(sql, [thing])
        deleting.resolve()
        await deleted.promise
      })
      await deleting.promise
      const repaired = repair()
      const waiting = `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`
      await expect.poll(async () => (await database().query(waiting)).length).toBeGreaterThan(0)
      deleted.resolve()
      await transaction
      await repaired
      const left = (await store.list({ object: thing })).filter(({ subject }) => what === 'a thing' || subject.startsWith(group))
      expect(left).toEqual([])
    })
  })
}
