// The port over PGlite: the conformance suite, and what is special about one connection in this process.

import { existsSync } from 'node:fs'
import { chmod, mkdir, readdir, rm, stat, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { afterEach, expect, test } from 'vitest'
import type { Database } from '../../../config/postgres/database.ts'
import { type EmbeddedDatabase, openEmbedded } from '../../../config/postgres/embedded.ts'
import { databaseConformance } from '../../conformance/database.ts'
import { type EmbeddedFolder, embeddedFolder } from '../../servers/embedded.ts'

const modeOf = async (path: string) => (await stat(path)).mode & 0o777
const folders: EmbeddedFolder[] = []
const opened: Database[] = []
const open = async (): Promise<EmbeddedDatabase> => {
  const folder = await embeddedFolder()
  folders.push(folder)
  const database = await openEmbedded({ folder: folder.path })
  opened.push(database)
  return database
}
afterEach(async () => {
  await Promise.all(opened.splice(0).map(database => database.close()))
  await Promise.all(folders.splice(0).map(folder => folder.remove()))
}, 60_000)

{
  const folder = await embeddedFolder()
  let opened = 0
  databaseConformance('PGlite', async () => {
    opened += 1
    const database = await openEmbedded({ folder: folder.path })
    return {
      ...database,
      close: async () => {
        await database.close()
        opened -= 1
        if (opened === 0) await folder.remove()
      },
    }
  })
}

test('what was committed is there when the folder is opened again', { timeout: 60_000 }, async () => {
  const first = await open()
  await first.execute('CREATE TABLE kept (id int4); INSERT INTO kept VALUES (1)')
  await first.close()
  const second = await openEmbedded({ folder: first.folder })
  expect(await second.query('SELECT id FROM kept')).toEqual([{ id: 1 }])
  await second.close()
})

test('a statement of the database itself inside a transaction is refused, as it would wait for ever', { timeout: 60_000 }, async () => {
  const database = await open()
  await database.transaction(async () => {
    await expect(database.query('SELECT 1')).rejects.toThrow(/inside a transaction/)
    await expect(database.transaction(async () => 1)).rejects.toThrow(/inside another/)
  })
  expect(await database.query('SELECT 1 AS one')).toEqual([{ one: 1 }])
})

test('a statement of somebody else waits for the end of the transaction', { timeout: 60_000 }, async () => {
  const database = await open()
  await database.execute('CREATE TABLE seen (id int4)')
  const entered = Promise.withResolvers<void>()
  const leave = Promise.withResolvers<void>()
  const writing = database.transaction(async transaction => {
    await transaction.execute('INSERT INTO seen VALUES (1)')
    entered.resolve()
    await leave.promise
  })
  await entered.promise
  const reading = database.query('SELECT id FROM seen')
  leave.resolve()
  expect(await reading).toEqual([{ id: 1 }])
  await writing
})

test('what a transaction started and did not wait for may use the database when it has ended', { timeout: 60_000 }, async () => {
  const database = await open()
  const later = Promise.withResolvers<void>()
  let reading: Promise<unknown> | undefined
  await database.transaction(async () => {
    reading = later.promise.then(() => database.query('SELECT 1 AS one'))
  })
  later.resolve()
  expect(await reading).toEqual([{ one: 1 }])
})

test('a first start that was killed leaves nothing that the next one takes for a database', { timeout: 120_000 }, async () => {
  const folder = await embeddedFolder()
  folders.push(folder)
  const path = join(dirname(folder.path), 'made', 'deep')
  await mkdir(`${path}.initializing/base`, { recursive: true })
  await writeFile(`${path}.initializing/PG_VERSION`, 'half of it')
  const database = await openEmbedded({ folder: path })
  opened.push(database)
  expect(await database.query('SELECT 1 AS one')).toEqual([{ one: 1 }])
  expect(existsSync(`${path}.initializing`)).toBe(false)
  expect([await modeOf(path), await modeOf(dirname(path))]).toEqual([0o700, 0o755])
})

test('nobody else can enter the folder, whose files everybody could write, also where it was open before', {
  timeout: 60_000,
}, async () => {
  const first = await open()
  await first.close()
  await chmod(first.folder, 0o755)
  const second = await openEmbedded({ folder: first.folder })
  expect(await modeOf(second.folder)).toBe(0o700)
  await second.close()
})

test('a parameter that is undefined is a defect and no failed connection', { timeout: 60_000 }, async () => {
  const database = await open()
  const failure = await database.query('SELECT $1::text', [undefined as never]).catch((error: unknown) => error)
  expect(failure).toBeInstanceOf(TypeError)
  expect(await database.query('SELECT 1 AS one')).toEqual([{ one: 1 }])
})

test('a folder that cannot be read is an error with its reason, not damage', { timeout: 60_000 }, async () => {
  const file = join(dirname((await open()).folder), 'file')
  await writeFile(file, 'a file')
  await expect(openEmbedded({ folder: file })).rejects.toThrow(/cannot be read: ENOTDIR/)
})

test('the process keeps no trace of a database that was closed', { timeout: 60_000 }, async () => {
  const database = await open()
  const before = (await readdir('/proc/self/fd').catch(() => [])).length
  await database.close()
  const after = (await readdir('/proc/self/fd').catch(() => [])).length
  expect(after).toBeLessThanOrEqual(before)
  await rm(database.folder, { recursive: true })
  expect(process.exitCode).toBeUndefined()
})

test('statements that wait in a row leave the event loop its turns', { timeout: 60_000 }, async () => {
  await using folder = await embeddedFolder()
  const database = await openEmbedded({ folder: folder.path })
  let turns = 0
  let waiting = true
  const count = (): void => {
    turns++
    if (waiting) setImmediate(count)
  }
  setImmediate(count)
  await Promise.all(Array.from({ length: 50 }, () => database.query('SELECT 1')))
  waiting = false
  expect(turns).toBeGreaterThan(40)
  await database.close()
})
