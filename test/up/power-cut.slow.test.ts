// After a power cut the log is intact, but the database may be damaged: the start checks it, and says what it found and what to do.

import { cp, open, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { inDepth } from '../depth.ts'
import { makeSite, publish, readUntil } from './operator.ts'
import { spawnPlatform, startedFolder, startPlatform } from './platform.ts'

/** Kills the platform, and makes its folder look as if the machine had lost power. */
async function cutPower(data: string, platform: Awaited<ReturnType<typeof startPlatform>>): Promise<void> {
  await platform.stop('SIGKILL')
  const path = join(data, 'state.json')
  const state = JSON.parse(await readFile(path, 'utf8')) as Record<string, unknown>
  await writeFile(path, JSON.stringify({ ...state, boot: 'the boot before' }))
}

/** Simulates pages that never reached the disk: zeros in the largest files of tables and indexes. */
async function damageTables(data: string): Promise<void> {
  const folder = join(data, 'postgres', 'base')
  const files: { path: string; bytes: number }[] = []
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile() || !/^\d+$/.test(entry.name)) continue
    const path = join(entry.parentPath, entry.name)
    files.push({ path, bytes: (await stat(path)).size })
  }
  const largest = files.sort((a, b) => b.bytes - a.bytes).slice(0, 40)
  for (const { path, bytes } of largest) {
    const file = await open(path, 'r+')
    const half = Math.floor(bytes / 16384) * 8192
    await file.write(Buffer.alloc(Math.min(4096, bytes - half), 0xa5), 0, Math.min(4096, bytes - half), half)
    await file.close()
  }
}

test('an intact database is checked after a power cut, and everything acknowledged can be read once', async () => {
  await using folder = await startedFolder()
  let platform = await startPlatform({ data: folder.path })
  const site = await makeSite(platform.url)
  for (let v = 0; v < 20; v++) expect((await publish(platform.url, site, [{ n: 'count', v }])).status).toBe(202)
  await cutPower(folder.path, platform)

  platform = await startPlatform({ data: folder.path })
  expect(platform.printed()).toMatch(/checking the database/)
  const numbers = (await readUntil(platform.url, site, 20)).map(record => Number(record.Value))
  expect(numbers.sort((a, b) => a - b)).toEqual(Array.from({ length: 20 }, (_, v) => v))
  expect(await platform.stop()).toBe(0)
})

async function expectDamage(data: string): Promise<void> {
  const { child, printed } = spawnPlatform({ data })
  expect(await new Promise(resolve => child.once('close', resolve))).toBe(1)
  expect(printed()).toMatch(/damaged/)
  expect(printed()).toMatch(/mv \S+postgres \S+postgres\.damaged/)
}

test('a damaged database stops the start with what to do; after it is moved away, the messages come back from the log', async () => {
  await using folder = await startedFolder()
  let platform = await startPlatform({ data: folder.path })
  const site = await makeSite(platform.url)
  for (let v = 0; v < 20; v++) expect((await publish(platform.url, site, [{ n: 'count', v }])).status).toBe(202)
  await readUntil(platform.url, site, 20)
  await cutPower(folder.path, platform)
  await damageTables(folder.path)

  // Every further start gives the same error, and does not open the damaged database.
  await expectDamage(folder.path)
  await expectDamage(folder.path)
  await rename(join(folder.path, 'postgres'), join(folder.path, 'postgres.damaged'))
  platform = await startPlatform({ data: folder.path })
  const metrics = async (): Promise<string> => await (await fetch(`${platform.url}/metrics`)).text()
  while (!/component_sent_events_total\{.*\} 20$/m.test(await metrics())) await new Promise(resolve => setTimeout(resolve, 20))
  expect(await platform.stop()).toBe(0)
})

inDepth(() => {
  test('a log that was set back ends the start, before anything listens or is ready', async () => {
    await using folder = await startedFolder()
    let platform = await startPlatform({ data: folder.path })
    const site = await makeSite(platform.url)
    expect(await platform.stop()).toBe(0)
    const [log, copy] = [join(folder.path, 'log'), join(folder.path, 'log-before')]
    await cp(log, copy, { recursive: true })
    platform = await startPlatform({ data: folder.path })
    for (let v = 0; v < 3; v++) expect((await publish(platform.url, site, [{ n: 'count', v }])).status).toBe(202)
    await readUntil(platform.url, site, 3)
    expect(await platform.stop()).toBe(0)
    await rm(log, { recursive: true })
    await rename(copy, log)

    const { child, printed } = spawnPlatform({ data: folder.path })
    expect(await new Promise(resolve => child.once('close', resolve))).toBe(1)
    const last = JSON.parse(printed().trimEnd().split('\n').at(-1)!) as unknown
    expect(last).toMatchObject({ level: 'fatal', msg: expect.stringMatching(/ends at offset 0, but the store continues at 3/) as unknown })
    expect(printed()).not.toMatch(/^ready on |"msg":"(listening|ready)"/m)
  })
})
