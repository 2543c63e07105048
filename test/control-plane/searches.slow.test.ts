// Searches that a server cannot answer in a few seconds end, and the error says how to narrow them; lists that only follow an index wait.

import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest'
import { newGroupId, newThingId } from '../../control-plane/ids.ts'
import { openPolicyAdministration } from '../../control-plane/policies/administration.ts'
import { openRelationalPolicies } from '../../control-plane/policies/relational.ts'
import type { Database } from '../../database/database.ts'
import { openServer } from '../../database/server.ts'
import { describeWithPostgres } from '../servers/postgres.ts'
import { call } from '../up/operator.ts'
import { openPlatform, type Platform, writesOn } from './platform.ts'

describeWithPostgres('long searches', postgres => {
  let database: Database
  let platform: Platform
  let authorization: string
  beforeAll(async () => {
    database = await openServer({ url: await postgres.createDatabase(), applicationName: 'sluice-test', connectionsMax: 32 })
    platform = await openPlatform(database)
    authorization = await platform.administrator()
  })
  afterAll(async () => {
    await platform?.close()
    await database?.close()
  })
  const ask = (path: string) => call(platform.url, 'GET', path, { authorization })
  const metadata = 'metadata=%7B%22a%22%3A1%7D'

  /** The result of `work` while nothing can be read from the table. */
  const whileLocked = <Result>(table: string, work: () => Promise<Result>): Promise<Result> =>
    database.transaction(async transaction => {
      await transaction.execute(`LOCK TABLE control_plane.${table} IN ACCESS EXCLUSIVE MODE`)
      return work()
    })

  test.concurrent.each([
    ['things by metadata', 'things', `/things?${metadata}`, 'narrow the list by name'],
    ['things of others', 'tuples', '/things?shared=true', 'list without those of others'],
    ['channels by metadata', 'channels', `/channels?${metadata}`, 'narrow the list by name'],
    ['groups by metadata', 'groups', `/groups?${metadata}`, 'narrow the list by name'],
    ['users', 'policy_outbox', '/users', 'narrow the list by email'],
    ['the audit log', 'audit', '/audit', 'narrow the list by from and to'],
  ])('a search of %s that takes too long is 422 and names what narrows it', async (_name, table, path, advice) => {
    const answer = await whileLocked(table, () => ask(path))
    expect([answer.status, answer.json?.detail]).toEqual([422, expect.stringContaining(advice)])
  })

  test('a list without a metadata filter waits', async () => {
    const { waiting } = await whileLocked('things', async () => {
      const list = ask('/things')
      await ask(`/things?${metadata}`)
      return { waiting: list }
    })
    expect((await waiting).status).toBe(200)
  })

  test('an explanation of a policy ends after three seconds, and leaves out the rest', async () => {
    const relational = openRelationalPolicies(database)
    const { id } = await platform.user()
    const [subject, thing] = [id as never, newThingId()]
    // In the order of the search: the last one leads to the object.
    const groups = Array.from({ length: 20 }, () => newGroupId()).sort()
    await relational.transaction((_, policyWriter) =>
      policyWriter.add([
        ...groups.map(object => ({ subject, relation: 'member', object }) as const),
        ...groups.slice(-1).map(group => ({ subject: `${group}#member`, relation: 'read', object: thing }) as const),
      ]),
    )
    const slow = {
      ...relational,
      list: (...asked: Parameters<typeof relational.list>) => {
        vi.advanceTimersByTime(250)
        return relational.list(...asked)
      },
    }
    vi.useFakeTimers({ toFake: ['Date'] })
    onTestFinished(() => void vi.useRealTimers())
    expect(await openPolicyAdministration(relational, writesOn(database)).path(subject, 'read', thing)).toHaveLength(2)
    expect(await openPolicyAdministration(slow, writesOn(database)).path(subject, 'read', thing)).toBeUndefined()
  })
})
