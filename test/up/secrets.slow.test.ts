// The master key of `sluice up` is replaced while it is stopped: cut off anywhere, the folder starts, and the next run finishes what was begun.

import { readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { expect, test } from 'vitest'
import type { Database, SqlValue } from '../../config/postgres/database.ts'
import { generateSecret } from '../../config/secrets.ts'
import { sources } from '../../roles/roles.ts'
import { type ControlPlaneSite, withControlPlane } from '../../roles/tools/control-plane.ts'
import { rotateInFolder } from '../../roles/tools/secrets.ts'
import { main } from '../bin/command.ts'
import { openPlatform } from '../control-plane/platform.ts'
import { spawnRole } from '../roles/processes.ts'
import { call, expectStatus, makeSite, publish, type Site } from './operator.ts'
import { disposableFolder, startPlatform } from './platform.ts'

interface Folder {
  readonly data: string
  readonly site: Site
  /** Each line of the file. */
  masterKeys(): Promise<string[]>
}

/** The folder of a platform that was used and is stopped. @param things that it has beside the one of the site */
async function usedFolder(data: string, things = 0): Promise<Folder> {
  const platform = await startPlatform({ data })
  const site = await makeSite(platform.url)
  const many = Array.from({ length: 1_000 }, () => ({ name: 'one of many' }))
  for (let made = 0; made < things; made += 1_000)
    await expectStatus(call(platform.url, 'POST', '/things/bulk', { authorization: site.owner, body: many }), 201)
  expect(await platform.stop()).toBe(0)
  return { data, site, masterKeys: async () => (await readFile(join(data, 'master-key'), 'utf8')).trim().split('\n') }
}

/** Starts the platform once: its device publishes, and whoever has a token is answered. */
async function expectServing({ data, site }: Folder, ofToken: 200 | 401): Promise<void> {
  const platform = await startPlatform({ data })
  await expectStatus(publish(platform.url, site, [{ n: 'x', v: 1 }]), 202)
  const shown = await expectStatus(call(platform.url, 'GET', `/things/${site.thing}`, { authorization: site.owner }), ofToken)
  if (ofToken === 200) expect([shown.json?.key, shown.headers.get('etag')]).toEqual([site.device.replace('Thing ', ''), '"1"'])
  expect(await platform.stop()).toBe(0)
}

const rotateWords = ({ data }: Pick<Folder, 'data'>): string[] => [main, 'secrets', 'rotate', '--data', data]

test('it is refused while the platform runs; stopped, things keep their keys under a new one, which is alone, and tokens end', async () => {
  await using place = await disposableFolder()
  const folder = await usedFolder(place.path)
  const [old] = await folder.masterKeys()
  const platform = await startPlatform({ data: folder.data })
  for (const words of [rotateWords(folder), [main, 'policies', 'repair', '--data', folder.data]]) {
    const refused = spawnRole(words, {})
    expect([await refused.ended, refused.printed()]).toEqual([1, expect.stringMatching(/is in use by process \d+: stop that one.*\n$/)])
  }
  expect(await platform.stop()).toBe(0)

  const rotated = spawnRole(rotateWords(folder), {})
  expect([await rotated.ended, rotated.printed()]).toEqual([
    0,
    expect.stringMatching(
      /^\S+master-key holds a new master key before the old one\n1 thing key was encrypted .*\n\S+master-key holds the new key alone: .*\n$/,
    ),
  ])
  const keys = await folder.masterKeys()
  expect([keys.length, keys.includes(old!)]).toEqual([1, false])
  expect((await stat(join(folder.data, 'master-key'))).mode & 0o777).toBe(0o600)
  for (const secret of [old!, ...keys, folder.site.device.replace('Thing ', '')]) expect(rotated.printed()).not.toContain(secret)
  const repaired = spawnRole([main, 'policies', 'repair', '--data', folder.data], {})
  expect([await repaired.ended, repaired.printed()]).toEqual([0, expect.stringMatching(/^0 policies were added\n$/m)])
  await expectServing(folder, 401)
})

test('SIGKILL at its beginning and in its middle: the platform starts, with its tokens, and the next run finishes it', async () => {
  await using place = await disposableFolder()
  const folder = await usedFolder(place.path, 20_000)
  const [old] = await folder.masterKeys()
  for (const laterMs of [0, 1_500]) {
    const killed = spawnRole(rotateWords(folder), {})
    while (!/holds a new master key/.test(killed.printed())) await wait(10)
    await wait(laterMs)
    killed.child.kill('SIGKILL')
    expect(await killed.ended).toBe('SIGKILL')
    expect((await folder.masterKeys()).slice(1)).toEqual([old])
    await expectServing(folder, 200)
  }
  const finished = spawnRole(rotateWords(folder), {})
  expect([await finished.ended, finished.printed()]).toEqual([0, expect.stringMatching(/already: this goes on with what was begun\n/)])
  expect(await folder.masterKeys()).toHaveLength(1)
  await expectServing(folder, 401)
})

test('a previous key in its time of grace keeps the old key in the folder; the run after it takes that away', async () => {
  await using place = await disposableFolder()
  const folder = await usedFolder(place.path)
  const platform = await startPlatform({ data: folder.data })
  const body = { grace_seconds: 3_600 }
  const { json } = await call(platform.url, 'PATCH', `/things/${folder.site.thing}/key`, { authorization: folder.site.owner, body })
  expect(await platform.stop()).toBe(0)
  const [old] = await folder.masterKeys()
  const run = async (): Promise<string> => {
    const rotating = spawnRole(rotateWords(folder), {})
    expect(await rotating.ended).toBe(0)
    return rotating.printed()
  }
  expect(await run()).toMatch(/the old key stays until \S+Z, for the previous key of a thing in its time of grace: run this again then/)
  expect((await folder.masterKeys())[1]).toBe(old)
  const serving = await startPlatform({ data: folder.data })
  for (const device of [folder.site.device, `Thing ${json!['key'] as string}`])
    await expectStatus(publish(serving.url, { ...folder.site, device }, [{ n: 'x', v: 1 }]), 202)
  // It ends early.
  const { owner: authorization, thing } = folder.site
  await expectStatus(call(serving.url, 'PATCH', `/things/${thing}/key`, { authorization, body: {} }), 200)
  expect(await serving.stop()).toBe(0)
  expect(await run()).toMatch(/holds the new key alone/)
  expect(await folder.masterKeys()).toHaveLength(1)
})

/** What stops the run, and the step before which it does. */
const cuts: readonly {
  readonly name: string
  readonly told?: RegExp
  readonly sql?: RegExp
  readonly nth?: number
  readonly keys: number
}[] = [
  { name: 'the file holds both keys', told: /holds a new master key/, keys: 2 },
  { name: 'the first batch', sql: /FOR UPDATE SKIP LOCKED/, keys: 2 },
  { name: 'the end of the second batch', sql: /json_to_recordset/, nth: 2, keys: 2 },
  { name: 'the check', sql: /SET key_check/, keys: 2 },
  { name: 'the line of the audit log', sql: /INSERT INTO control_plane.audit/, keys: 2 },
  { name: 'the old key leaves the file', told: /encrypted under/, keys: 2 },
  { name: 'the last word', told: /holds the new key alone/, keys: 1 },
]

test('cut off at each of its steps, the folder opens, and the next run finishes it', async () => {
  await using place = await disposableFolder()
  const folder = await usedFolder(place.path, 1_000)
  for (const { name, keys, ...cut } of cuts) {
    await expect(rotateUntil(folder, cut)).rejects.toThrow('cut off')
    expect([name, (await folder.masterKeys()).length]).toEqual([name, keys])
    await expectOpening(folder)
    await rotateUntil(folder, {})
    expect([name, (await folder.masterKeys()).length]).toEqual([name, 1])
  }
  await expectServing(folder, 401)
})

test('a file with a key of another folder stops it, and the file stays as it is', async () => {
  await using place = await disposableFolder()
  const folder = await usedFolder(place.path)
  const text = `${generateSecret()}\n${generateSecret()}\n`
  await writeFile(join(folder.data, 'master-key'), text)
  const refused = spawnRole(rotateWords(folder), {})
  expect([await refused.ended, refused.printed()]).toEqual([1, expect.stringMatching(/written under another master key/)])
  expect(await readFile(join(folder.data, 'master-key'), 'utf8')).toBe(text)
})

/** What the platform does with a folder, in this process: its control plane starts under what the file holds, and knows the device. */
async function expectOpening({ data, site: { channel, device } }: Folder): Promise<void> {
  await withControlPlane({ data }, sources, site =>
    site.withDatabase(async database => {
      const { plane, close } = await openPlatform(database, { masterKeys: await site.masterKeys() })
      const credential = { scheme: 'Thing', secret: device.replace('Thing ', '') } as const
      expect(await plane.access.authorize({ credential, channel, action: 'publish' })).toMatchObject({ allowed: true })
      await close()
    }),
  )
}

/** In this process, where a statement or a word may be the last. */
async function rotateUntil({ data }: Folder, { told, sql, nth = 1 }: { told?: RegExp; sql?: RegExp; nth?: number }): Promise<void> {
  let met = 0
  const cutOff = (pattern: RegExp | undefined, text: string): void => {
    if (pattern?.test(text) === true && ++met === nth) throw new Error('cut off')
  }
  const watched = (database: Database): Database => ({
    ...database,
    transaction: (work, signal) =>
      database.transaction(
        transaction =>
          work({
            ...transaction,
            query: async <Row extends Record<string, SqlValue>>(text: string, values: readonly SqlValue[] = []) => {
              cutOff(sql, text)
              return transaction.query<Row>(text, values)
            },
          }),
        signal,
      ),
  })
  await withControlPlane({ data }, sources, async site => {
    const cutting: ControlPlaneSite = { ...site, withDatabase: work => site.withDatabase(database => work(watched(database))) }
    await rotateInFolder(cutting, join(data, 'master-key'), async text => cutOff(told, text))
  })
}
