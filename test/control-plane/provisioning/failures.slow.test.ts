// A mapping that fails at any of its steps leaves nothing behind, and the same request makes it afterwards.

import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Queries } from '../../../config/postgres/database.ts'
import { takeFaults } from '../../described-answers/faults.ts'
import { type Answer, call } from '../../up/operator.ts'
import { describeOnDatabases, openPlatform, type Platform } from '../platform.ts'
import { openTestIssuer, type TestIssuer } from './issuer.ts'
import { fullLayout, openSteps, type Steps, snapshot } from './steps.ts'

type Meet = (transaction?: Queries) => Promise<unknown>

describeOnDatabases('a mapping that fails', database => {
  let platform: Platform
  let issuer: TestIssuer
  let steps: Steps
  let meet: Meet
  let token: string
  /** With the commit. */
  let stepsInAll: number
  beforeAll(async () => {
    steps = openSteps(database(), transaction => meet(transaction))
    issuer = await openTestIssuer(database())
    const provisioning = { layout: fullLayout, externalKeyBytesMin: 8 }
    platform = await openPlatform(steps.database, { provisioning, certificates: issuer })
    token = await platform.administrator()
    steps.arm(0)
    expect((await map('first')).status).toBe(201)
    stepsInAll = steps.taken() - 1
    expect(stepsInAll).toBeGreaterThan(20)
  })
  afterAll(() => platform?.close())
  const map = (external_id: string): Promise<Answer> =>
    call(platform.url, 'POST', '/mapping', { authorization: token, body: { external_id, external_key: 'external key' } })
  async function failAt(step: number, failing: Meet, externalId: string): Promise<Answer> {
    meet = failing
    steps.arm(step)
    const answer = await map(externalId)
    steps.arm(0)
    // Meant to be a defect.
    takeFaults()
    return answer
  }

  const refused: Meet = transaction => (transaction ?? database()).query('SELECT 1 / 0')
  async function lost(transaction?: Queries): Promise<never> {
    const [row] = await transaction!.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')
    await database().query('SELECT pg_terminate_backend($1)', [row!.pid])
    return (await transaction!.query('SELECT 1')) as never
  }

  async function failEach(failing: Meet, status: number): Promise<void> {
    for (let step = 1; step <= stepsInAll; step++) {
      const [device, before, issuedBefore] = [`${status}-${step}`, await snapshot(database()), issuer.issued.length]
      expect([step, (await failAt(step, failing, device)).status]).toEqual([step, status])
      expect(await snapshot(database())).toEqual(before)
      expect(issuer.discarded).toEqual(expect.arrayContaining(issuer.issued.slice(issuedBefore)))
      const again = await map(device)
      expect([step, again.status, (again.json!['things'] as []).length]).toEqual([step, 201, 2])
      expect((await map(device)).status).toBe(200)
    }
  }

  test('by an error or the loss of the database at any statement, or before the commit', async () => {
    await failEach(refused, 500)
    expect(issuer.discarded).not.toEqual([])
    if (database().kind === 'server') await failEach(lost, 503)
  }, 120_000)

  test('by a certificate that is not issued', async () => {
    for (const nth of [1, 2]) {
      const before = await snapshot(database())
      issuer.failAt(nth)
      expect((await map(`certificate-${nth}`)).status).toBe(500)
      takeFaults()
      issuer.failAt(0)
      expect(await snapshot(database())).toEqual(before)
      expect((await map(`certificate-${nth}`)).status).toBe(201)
    }
  })

  test('where only the answer of the commit is lost, all of it stands, and its certificates too', async () => {
    const discarded = issuer.discarded.length
    expect((await failAt(stepsInAll + 1, refused, 'committed')).status).toBe(500)
    expect((await map('committed')).status).toBe(200)
    expect(issuer.discarded).toHaveLength(discarded)
  })
})
