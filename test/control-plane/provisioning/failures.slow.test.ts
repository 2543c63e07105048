// A mapping that fails at any of its steps leaves nothing behind, and the same request then creates it.

import { X509Certificate } from 'node:crypto'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import type { Queries } from '../../../database/database.ts'
import { takeFaults } from '../../described-answers/faults.ts'
import { type Answer, call } from '../../up/operator.ts'
import { startVaultStandIn, type VaultStandIn } from '../certificates/authorities/vault-stand-in.ts'
import { describeOnDatabases, openPlatform, type Platform } from '../platform.ts'
import { fullLayout, openSteps, type Steps, snapshot } from './steps.ts'
import { certificatesOf } from './vault.ts'

type Meet = (transaction?: Queries) => Promise<unknown>

describeOnDatabases('a failing mapping', database => {
  let platform: Platform
  let vault: VaultStandIn
  let steps: Steps
  let meet: Meet
  let token: string
  /** Including the commit. */
  let stepsInAll: number
  beforeAll(async () => {
    steps = openSteps(database(), transaction => meet(transaction))
    vault = await startVaultStandIn()
    const provisioning = { layout: fullLayout, externalKeyBytesMin: 8 }
    platform = await openPlatform(steps.database, { provisioning, certificates: certificatesOf(vault) })
    token = await platform.administrator()
    steps.arm(0)
    expect((await map('first')).status).toBe(201)
    stepsInAll = steps.taken() - 1
    expect(stepsInAll).toBeGreaterThan(20)
  })
  afterAll(async () => {
    await platform?.close()
    await vault?.stop()
  })
  const map = (external_id: string, on = platform): Promise<Answer> =>
    call(on.url, 'POST', '/mapping', { authorization: token, body: { external_id, external_key: 'external key' } })
  async function failAt(step: number, failing: Meet, externalId: string): Promise<Answer> {
    meet = failing
    steps.arm(step)
    const answer = await map(externalId)
    steps.arm(0)
    // Simulates a defect.
    takeFaults()
    return answer
  }

  const refused: Meet = transaction => (transaction ?? database()).query('SELECT 1 / 0')
  async function lost(transaction?: Queries): Promise<unknown> {
    // After the commit only the answer can be lost.
    if (transaction === undefined) return database().query(`SELECT pg_terminate_backend(pg_backend_pid())`)
    const [row] = await transaction.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')
    await database().query('SELECT pg_terminate_backend($1)', [row!.pid])
    return transaction.query('SELECT 1')
  }

  async function failEach(failing: Meet, status: number): Promise<void> {
    const valid = vault.valid().length
    for (let step = 1; step <= stepsInAll; step++) {
      const [device, before] = [`${status}-${step}`, await snapshot(database())]
      expect([step, (await failAt(step, failing, device)).status]).toEqual([step, status])
      expect(await snapshot(database())).toEqual(before)
      const again = await map(device)
      expect([step, again.status, (again.json!['things'] as []).length]).toEqual([step, 201, 2])
      expect((await map(device)).status).toBe(200)
    }
    await expect.poll(() => vault.valid().length).toBe(valid + 2 * stepsInAll)
  }

  test('by an error or the loss of the database at any statement, or before the commit', async () => {
    await failEach(refused, 500)
    if (database().kind === 'server') await failEach(lost, 503)
  })

  test.each(['sealed', 'strange', 'silent'] as const)('by a certificate authority that is %s', async behaviour => {
    const provisioning = { layout: fullLayout, externalKeyBytesMin: 8 }
    const impatient = await openPlatform(database(), { provisioning, certificates: certificatesOf(vault, 500) })
    onTestFinished(() => impatient.close())
    const [before, valid] = [await snapshot(database()), vault.valid()]
    vault.behaves(behaviour)
    const failed = await map(behaviour, impatient)
    vault.behaves('usual')
    expect([failed.status, failed.headers.get('retry-after')]).toEqual([503, expect.any(String)])
    expect([await snapshot(database()), vault.valid()]).toEqual([before, valid])
    expect((await map(behaviour)).status).toBe(201)
  })

  test('if only the answer to the commit is lost, everything stays, including its certificates', async () => {
    const made = await failAt(stepsInAll + 1, refused, 'committed')
    expect([made.status, Object.keys(made.json!['client_key'] as object).length]).toEqual([201, 2])
    expect((await map('committed')).status).toBe(200)
    // Named, since those of mappings that failed before are revoked in the background.
    const serials = Object.values(made.json!['client_cert'] as Record<string, string>).map(certificate =>
      new X509Certificate(certificate).serialNumber.toLowerCase(),
    )
    expect(serials).toHaveLength(2)
    expect(vault.valid()).toEqual(expect.arrayContaining(serials))
  })
})
