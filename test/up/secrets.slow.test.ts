// Replaces the master key of a stopped `sluice up`: killed at any step, the folder can be started, and the next run finishes the rotation.

import { cp, readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { beforeAll, expect, test } from 'vitest'
import { generateSecret } from '../../config/secrets.ts'
import { sources } from '../../roles/roles.ts'
import { withControlPlane } from '../../roles/tools/control-plane.ts'
import { main } from '../bin/command.ts'
import { openPlatform, type Platform } from '../control-plane/platform.ts'
import { inDepth } from '../depth.ts'
import { spawnRole } from '../roles/processes.ts'
import { temporaryFolder } from '../temporary-folder.ts'
import { call, expectStatus, makeSite, publish, type Site } from './operator.ts'
import { startedFolder, startPlatform } from './platform.ts'

/** For the folder that each test copies: a device and a thousand other things, two batches. */
let site: Site
let original: string

beforeAll(async () => {
  const folder = await startedFolder()
  original = folder.path
  const platform = await startPlatform({ data: original })
  site = await makeSite(platform.url)
  const body = Array.from({ length: 1_000 }, () => ({ name: 'one of many' }))
  await expectStatus(call(platform.url, 'POST', '/things/bulk', { authorization: site.owner, body }), 201)
  await platform.stop()
  return () => folder[Symbol.asyncDispose]()
})

async function copy(): Promise<{ data: string; masterKeys: () => Promise<string[]> }> {
  const data = join(temporaryFolder(), 'data')
  await cp(original, data, { recursive: true })
  return { data, masterKeys: async () => (await readFile(join(data, 'master-key'), 'utf8')).trim().split('\n') }
}

async function run(...words: string[]): Promise<{ code: unknown; printed: string }> {
  const { ended, printed } = spawnRole([main, ...words], {})
  return { code: await ended, printed: printed() }
}

/** Starts the platform once: its device can publish, and a token gets `tokenStatus`. */
async function expectServing(data: string, tokenStatus: 200 | 401): Promise<void> {
  const platform = await startPlatform({ data })
  await expectStatus(publish(platform.url, site, [{ n: 'x', v: 1 }]), 202)
  const shown = await expectStatus(call(platform.url, 'GET', `/things/${site.thing}`, { authorization: site.owner }), tokenStatus)
  if (tokenStatus === 200) expect([shown.json?.key, shown.headers.get('etag')]).toEqual([site.device.replace('Thing ', ''), '"1"'])
  await platform.stop()
}

/** Runs the platform's control plane in this process, with the keys in the file. */
async function opening<Result>(data: string, work: (platform: Platform) => Promise<Result>): Promise<Result> {
  return withControlPlane({ data }, sources, folder =>
    folder.withDatabase(async database => {
      const platform = await openPlatform(database, { masterKeys: await folder.masterKeys() })
      try {
        return await work(platform)
      } finally {
        await platform.close()
      }
    }),
  )
}
async function publishes({ plane }: Platform, secret = site.device.replace('Thing ', '')): Promise<boolean> {
  const credential = { scheme: 'Thing', secret } as const
  return (await plane.access.authorize({ credential, channel: site.channel, action: 'publish' })).allowed
}

test('it is refused while the platform runs; once stopped, things keep their keys under the only new one, and tokens end', async () => {
  const { data, masterKeys } = await copy()
  const [old] = await masterKeys()
  const platform = await startPlatform({ data })
  for (const words of ['secrets rotate', 'policies repair'])
    expect(await run(...words.split(' '), '--data', data)).toEqual({
      code: 1,
      printed: expect.stringMatching(/^the data folder \S+ is in use by process \d+: stop it.*\n$/),
    })
  await platform.stop()

  const rotated = await run('secrets', 'rotate', '--data', data)
  expect(rotated).toEqual({
    code: 0,
    printed: expect.stringMatching(
      /^\S+master-key now contains a new master key before the old one\n1001 thing keys were re-encrypted .*\n\S+master-key contains only the new key: .*\n$/,
    ),
  })
  const keys = await masterKeys()
  expect([keys.length, keys.includes(old!)]).toEqual([1, false])
  expect((await stat(join(data, 'master-key'))).mode & 0o777).toBe(0o600)
  for (const secret of [old!, ...keys, site.device.replace('Thing ', '')]) expect(rotated.printed).not.toContain(secret)
  expect(await run('policies', 'repair', '--data', data)).toEqual({ code: 0, printed: expect.stringMatching(/^0 policies were added\n$/m) })
  await expectServing(data, 401)
})

/** The step before which the process is killed, and the number of keys in the file then. Each run continues the previous one. */
const kills: readonly (readonly [kind: 'sql' | 'tell', pattern: string, nth: number, keys: number])[] = [
  ['tell', 'contains a new master key', 1, 2],
  ['sql', 'FOR UPDATE SKIP LOCKED', 1, 2],
  ['sql', 'json_to_recordset', 2, 2],
  ['sql', 'SET key_check', 1, 2],
  ['sql', 'INSERT INTO control_plane.audit', 1, 2],
  ['tell', 'with the master key', 1, 2],
  ['tell', 'contains only the new key', 1, 1],
]

inDepth(() => {
  test('killed at each of its steps, the platform starts, with its tokens as long as the old key is there, and the next run continues', async () => {
    const { data, masterKeys } = await copy()
    const [old] = await masterKeys()
    for (const [kind, pattern, nth, keys] of kills) {
      const killed = spawnRole(['test/up/rotating-process.ts', data, kind, pattern, String(nth)], {})
      await new Promise<void>((resolve, reject) => {
        const look = (): void => void (/reached/.test(killed.printed()) && resolve())
        killed.child.stdout!.on('data', look)
        void killed.ended.then(() => reject(new Error(`it ended before ${pattern}: ${killed.printed()}`)))
      })
      killed.child.kill('SIGKILL')
      expect(await killed.ended).toBe('SIGKILL')
      expect([pattern, (await masterKeys()).length, (await masterKeys()).includes(old!)]).toEqual([pattern, keys, keys === 2])
      expect([pattern, await opening(data, publishes)]).toEqual([pattern, true])
      if (pattern === 'json_to_recordset') await expectServing(data, 200)
    }
    await expectServing(data, 401)
  })
})

inDepth(() => {
  test('a previous key in its grace period keeps the old key in the folder; the next run removes that', async () => {
    const { data, masterKeys } = await copy()
    const [old] = await masterKeys()
    const replaceKey = (body: object) =>
      opening(data, async ({ url }) => {
        const answer = await expectStatus(call(url, 'PATCH', `/things/${site.thing}/key`, { authorization: site.owner, body }), 200)
        return answer.json!['key'] as string
      })
    const key = await replaceKey({ grace_seconds: 3_600 })
    expect(await run('secrets', 'rotate', '--data', data)).toEqual({
      code: 0,
      printed: expect.stringMatching(
        /the old key is kept until \S+Z for the previous key of a thing in its grace period: run this command again afterwards/,
      ),
    })
    expect((await masterKeys()).slice(1)).toEqual([old])
    expect(await opening(data, async platform => [await publishes(platform), await publishes(platform, key)])).toEqual([true, true])
    // It ends the grace period early.
    await replaceKey({})
    expect(await run('secrets', 'rotate', '--data', data)).toEqual({ code: 0, printed: expect.stringMatching(/contains only the new key/) })
    expect(await masterKeys()).toHaveLength(1)
  })
})

inDepth(() => {
  test('an external key that its device has not sent since keeps the old key in the folder; the run after a fetch removes that', async () => {
    const { data, masterKeys } = await copy()
    const [old] = await masterKeys()
    const body = { external_id: 'gateway', external_key: 'an external key' }
    await opening(data, ({ url }) => expectStatus(call(url, 'POST', '/mapping', { authorization: site.owner, body }), 201))
    const kept = await run('secrets', 'rotate', '--data', data)
    expect(kept).toEqual({
      code: 0,
      printed: expect.stringMatching(/the old key is kept for the external key of a device, until it has fetched/),
    })
    expect((await masterKeys()).slice(1)).toEqual([old])
    const fetch = () =>
      opening(data, async ({ url }) => {
        const device = { authorization: `Thing ${body.external_key}` }
        return (await call(url, 'GET', `/things/bootstrap/${body.external_id}`, device)).status
      })
    expect(await fetch()).toBe(200)
    expect(await run('secrets', 'rotate', '--data', data)).toEqual({ code: 0, printed: expect.stringMatching(/contains only the new key/) })
    expect([(await masterKeys()).length, await fetch()]).toEqual([1, 200])
  })
})

inDepth(() => {
  test('a file with the keys of another folder stops it, and is not changed', async () => {
    const { data } = await copy()
    const text = `${generateSecret()}\n${generateSecret()}\n`
    await writeFile(join(data, 'master-key'), text)
    expect(await run('secrets', 'rotate', '--data', data)).toEqual({
      code: 1,
      printed: expect.stringMatching(/encrypted with another master key/),
    })
    expect(await readFile(join(data, 'master-key'), 'utf8')).toBe(text)
  })
})
