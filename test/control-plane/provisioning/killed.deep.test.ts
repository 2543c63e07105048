// A process that is killed during a mapping leaves nothing of it, whatever the step; killed after the commit, it leaves all of it.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import type { Database } from '../../../database/database.ts'
import { openEmbedded } from '../../../database/embedded/embedded.ts'
import { openServer } from '../../../database/server.ts'
import { embeddedFolder } from '../../servers/embedded.ts'
import { describeWithPostgres } from '../../servers/postgres.ts'
import { type Answer, call } from '../../up/operator.ts'
import { openPlatform, type Platform } from '../platform.ts'
import { fullLayout, openSteps, snapshot } from './steps.ts'

const script = fileURLToPath(new URL('mapping-process.ts', import.meta.url))

/** Kills a process whose mappings have stopped. @param stops `<user>:<step>` */
async function killAt(where: string, ...stops: readonly string[]): Promise<void> {
  const child = spawn(process.execPath, [script, where, ...stops], { stdio: ['ignore', 'pipe', 'inherit'] })
  const closed = once(child, 'close')
  const said = await Promise.race([once(createInterface(child.stdout), 'line'), closed])
  child.kill('SIGKILL')
  await closed
  expect(said).toEqual(['reached'])
}

async function openOn(database: Database): Promise<Platform> {
  return openPlatform(database, { provisioning: { layout: fullLayout, externalKeyBytesMin: 8 } })
}

async function map(platform: Platform, external_id: string): Promise<Answer> {
  const authorization = await platform.administrator()
  return call(platform.url, 'POST', '/mapping', { authorization, body: { external_id, external_key: 'external key' } })
}

/** A first mapping. @returns its user, and how many steps it took up to the commit */
async function mapFirst(database: Database): Promise<{ user: string; stepsInAll: number }> {
  const steps = openSteps(database, () => Promise.resolve())
  const platform = await openOn(steps.database)
  const token = await platform.administrator()
  steps.arm(0)
  const body = { external_id: 'first', external_key: 'external key' }
  expect((await call(platform.url, 'POST', '/mapping', { authorization: token, body })).status).toBe(201)
  const stepsInAll = steps.taken() - 1
  await platform.close()
  const [row] = await database.query<{ id: string }>('SELECT id FROM control_plane.users')
  return { user: row!.id, stepsInAll }
}

describeWithPostgres('a process with mappings, PostgreSQL server', postgres => {
  test('killed at each step, in as many mappings', async () => {
    const url = await postgres.createDatabase()
    const database = await openServer({ url, applicationName: 'sluice-test', connectionsMax: 4 })
    const { user, stepsInAll } = await mapFirst(database)
    const steps = Array.from({ length: stepsInAll }, (_, at) => at + 1)
    expect(steps.length).toBeGreaterThan(20)
    const platform = await openOn(database)
    const stops: string[] = []
    // A user each: a mapping that has stored its certificates locks the count of its owner.
    for (const step of steps) stops.push(`${(await platform.user()).id}:${step}`)
    const before = await snapshot(database)
    await killAt(url, ...stops)
    expect(await snapshot(database)).toEqual(before)
    await killAt(url, `${user}:${stepsInAll + 1}`)
    for (const step of steps) expect([step, (await map(platform, `killed-${step}`)).status]).toEqual([step, 201])
    expect((await map(platform, `killed-${stepsInAll + 1}`)).status).toBe(200)
    await platform.close()
    await database.close()
  })
})

/** For the embedded database, which runs one transaction at a time and so needs a process for each step. */
const stride = 9

test('a process with a mapping, embedded database: killed at every ninth step, and after the commit', async () => {
  await using folder = await embeddedFolder()
  let database = await openEmbedded({ folder: folder.path })
  const { user, stepsInAll } = await mapFirst(database)
  for (let step = 1; step <= stepsInAll + stride; step += stride) {
    const [at, before] = [Math.min(step, stepsInAll + 1), await snapshot(database)]
    await database.close()
    await killAt(folder.path, `${user}:${at}`)
    database = await openEmbedded({ folder: folder.path })
    if (at <= stepsInAll) expect(await snapshot(database)).toEqual(before)
    const platform = await openOn(database)
    expect([at, (await map(platform, `killed-${at}`)).status]).toEqual([at, at <= stepsInAll ? 201 : 200])
    await platform.close()
  }
  await database.close()
})
