// The port over PGlite: the conformance suite, and what is special about one connection in a thread of this process.

import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { chmod, mkdir, readdir, rm, stat, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import type { Worker } from 'node:worker_threads'
import { afterEach, expect, test } from 'vitest'
import { type Asking, type Database, DatabaseError } from '../../../config/postgres/database.ts'
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
    await expect(database.transaction(async () => 1)).rejects.toThrow(/inside a transaction/)
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

test('nobody else can read or enter what it makes, and what was open before is closed', { timeout: 60_000 }, async () => {
  const modesIn = async (folder: string): Promise<string[]> => {
    const entries = await readdir(folder, { recursive: true, withFileTypes: true })
    const modes = entries.map(async entry => {
      const mode = await modeOf(join(entry.parentPath, entry.name))
      return `${entry.isDirectory() ? 'folder' : 'file'} ${mode.toString(8)}`
    })
    return [...new Set(await Promise.all(modes))].sort()
  }
  const parent = await embeddedFolder()
  folders.push(parent)
  const folder = join(dirname(parent.path), 'fresh')
  const first = await openEmbedded({ folder })
  opened.push(first)
  await first.execute('CREATE TABLE plants (id int4 PRIMARY KEY); CHECKPOINT')
  expect(await modesIn(folder)).toEqual(['file 600', 'folder 700'])
  await first.close()
  await Promise.all([chmod(folder, 0o755), chmod(join(folder, 'base'), 0o755), chmod(join(folder, 'PG_VERSION'), 0o666)])
  opened.push(await openEmbedded({ folder }))
  expect(await modeOf(folder)).toBe(0o700)
  expect(await modesIn(folder)).toEqual(['file 600', 'folder 700'])
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

test('the main thread has its turns while a statement runs', { timeout: 60_000 }, async () => {
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
  // One that blocks the main thread leaves it a handful.
  expect(turns).toBeGreaterThan(1_000)
})

test('a statement of a reader waits behind everything else, and leaves the queue when its signal aborts', { timeout: 60_000 }, async () => {
  const database = await open()
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

/** The next thread that is started: only its end is of interest here. */
async function nextThread(): Promise<Worker> {
  return ((await once(process, 'worker')) as [Worker])[0]
}

test('when the thread of the database dies, what is under way is transient, and the folder is opened again', {
  timeout: 60_000,
}, async () => {
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

test('a transaction that goes on when its thread has died is not committed by the next one', { timeout: 60_000 }, async () => {
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

test('a closed database leaves no thread, and one that is idle keeps no process alive', { timeout: 60_000 }, async () => {
  const starting = nextThread()
  const database = await open()
  const thread = await starting
  const over = once(thread, 'exit')
  await database.close()
  await over

  const module = new URL('../../../config/postgres/embedded.ts', import.meta.url)
  const script = `import { openEmbedded } from '${module.href}'
    const database = await openEmbedded({ folder: '${database.folder}' })
    console.log(await database.query('SELECT 1 AS one'))`
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', script])
  expect(stdout).toBe('[ { one: 1 } ]\n')
})
