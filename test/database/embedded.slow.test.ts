// The database interface on PGlite: the conformance suite, and the properties of one connection in a thread.

import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { chmod, mkdir, readdir, rm, stat, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import type { Worker } from 'node:worker_threads'
import { afterEach, expect, onTestFinished, test, vi } from 'vitest'
import { type Asking, type Database, DatabaseError } from '../../database/database.ts'
import { type EmbeddedDatabase, openEmbedded } from '../../database/embedded/embedded.ts'
import { databaseConformance } from '../conformance/database.ts'
import { type EmbeddedFolder, embeddedFolder } from '../servers/embedded.ts'

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
})

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

test('committed rows are there when the folder is opened again', async () => {
  const first = await open()
  await first.execute('CREATE TABLE kept (id int4); INSERT INTO kept VALUES (1)')
  await first.close()
  const second = await openEmbedded({ folder: first.folder })
  expect(await second.query('SELECT id FROM kept')).toEqual([{ id: 1 }])
  await second.close()
})

test('a statement of the database itself inside a transaction is refused, because it would wait forever', async () => {
  const database = await open()
  await database.transaction(async () => {
    await expect(database.query('SELECT 1')).rejects.toThrow(/inside a transaction/)
    await expect(database.transaction(async () => 1)).rejects.toThrow(/inside a transaction/)
  })
  expect(await database.query('SELECT 1 AS one')).toEqual([{ one: 1 }])
})

test('other statements wait for the end of a transaction', async () => {
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

test('work that a transaction started without waiting may use the database after its end', async () => {
  const database = await open()
  const later = Promise.withResolvers<void>()
  let reading: Promise<unknown> | undefined
  await database.transaction(async () => {
    reading = later.promise.then(() => database.query('SELECT 1 AS one'))
  })
  later.resolve()
  expect(await reading).toEqual([{ one: 1 }])
})

test('a killed first start leaves nothing that the next one takes for a database', async () => {
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

test('no other user can enter its folder, although PGlite creates files with mode 0666', async () => {
  const folder = await embeddedFolder()
  folders.push(folder)
  await chmod(folder.path, 0o755)
  opened.push(await openEmbedded({ folder: folder.path }))
  expect(await modeOf(folder.path)).toBe(0o700)
})

test('an undefined parameter is a bug and not a failed connection', async () => {
  const database = await open()
  const failure = await database.query('SELECT $1::text', [undefined as never]).catch((error: unknown) => error)
  expect(failure).toBeInstanceOf(TypeError)
  expect(await database.query('SELECT 1 AS one')).toEqual([{ one: 1 }])
})

test('an unreadable folder is an error with its reason, not damage', async () => {
  const file = join(dirname((await open()).folder), 'file')
  await writeFile(file, 'a file')
  await expect(openEmbedded({ folder: file })).rejects.toThrow(/cannot be read: ENOTDIR/)
})

test('a closed database leaves no trace in the process', async () => {
  const database = await open()
  const before = (await readdir('/proc/self/fd').catch(() => [])).length
  await database.close()
  const after = (await readdir('/proc/self/fd').catch(() => [])).length
  expect(after).toBeLessThanOrEqual(before)
  await rm(database.folder, { recursive: true })
  expect(process.exitCode).toBeUndefined()
})

test('the event loop of the main thread runs during a statement', async () => {
  const database = await open()
  let turns = 0
  let running = true
  const count = (): void => {
    turns++
    if (running) setImmediate(count)
  }
  setImmediate(count)
  await database.query('SELECT count(*) FROM generate_series(1, 2000000)')
  running = false
  // A statement that blocks the main thread leaves it a few; otherwise these are many thousands, and on a busy machine fewer.
  expect(turns).toBeGreaterThan(100)
})

test("a reader's statement waits behind everything else, and leaves the queue when its signal aborts", async () => {
  const database = await open()
  // A reader that has waited too long comes first, which must not happen on a busy machine.
  vi.useFakeTimers({ toFake: ['performance'] })
  onTestFinished(() => void vi.useRealTimers())
  const leave = Promise.withResolvers<void>()
  const writing = database.transaction(() => leave.promise)
  const order: string[] = []
  const ask = async (name: string, asking: Asking): Promise<unknown> => {
    await database.query('SELECT 1', [], asking)
    return order.push(name)
  }
  const abort = new AbortController()
  const given = ask('given up', { priority: 'reader', signal: abort.signal })
  const all = [ask('page', { priority: 'reader' }), database.transaction(async () => order.push('batch')), ask('grant', {})]
  const reason = new Error('not any more')
  abort.abort(reason)
  await expect(given).rejects.toBe(reason)
  leave.resolve()
  await Promise.all([writing, ...all])
  expect(order).toEqual(['batch', 'grant', 'page'])
})

/** The next thread that is started, to end it. */
async function nextThread(): Promise<Worker> {
  return ((await once(process, 'worker')) as [Worker])[0]
}

test("when the database's thread dies, running work is transient, and the folder is opened again", async () => {
  const starting = nextThread()
  const database = await open()
  const thread = await starting
  await database.execute('CREATE TABLE plants (id int4); INSERT INTO plants VALUES (1)')
  const writing = database.transaction(async transaction => {
    await transaction.execute('INSERT INTO plants VALUES (2)')
    const sleeping = transaction.query('SELECT pg_sleep(60)::text')
    void thread.terminate()
    await sleeping
  })
  const behind = database.query('SELECT id FROM plants')
  const failure = await writing.catch((error: unknown) => error)
  expect(failure).toBeInstanceOf(DatabaseError)
  expect(failure).toMatchObject({ sqlState: '57P02', transient: true })
  expect(await behind).toEqual([{ id: 1 }])
  await database.transaction(transaction => transaction.execute('INSERT INTO plants VALUES (3)'))
  expect(await database.query('SELECT id FROM plants')).toEqual([{ id: 1 }, { id: 3 }])
})

test('a transaction that continues after its thread died is not committed by the next one', async () => {
  const starting = nextThread()
  const database = await open()
  const thread = await starting
  await database.execute('CREATE TABLE plants (id int4)')
  const writing = database.transaction(async transaction => {
    await transaction.execute('INSERT INTO plants VALUES (1)')
    await thread.terminate()
    await transaction.execute('INSERT INTO plants VALUES (2)').catch(() => undefined)
  })
  await expect(writing).rejects.toMatchObject({ sqlState: '57P02' })
  expect(await database.query('SELECT id FROM plants')).toEqual([])
})

test('a closed database leaves no thread, and an idle one keeps no process alive', async () => {
  const starting = nextThread()
  const database = await open()
  const thread = await starting
  const over = once(thread, 'exit')
  await database.close()
  await over

  const module = new URL('../../database/embedded/embedded.ts', import.meta.url)
  const script = `import { openEmbedded } from '${module.href}'
    const database = await openEmbedded({ folder: '${database.folder}' })
    console.log(await database.query('SELECT 1 AS one'))`
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', script])
  expect(stdout).toBe('[ { one: 1 } ]\n')
})
