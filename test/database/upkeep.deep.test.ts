// Background work on the embedded database, which a server does by itself.

import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { DatabaseError } from '../../database/database.ts'
import { type EmbeddedDatabase, openEmbedded } from '../../database/embedded/embedded.ts'
import { startUpkeep, tend } from '../../database/embedded/upkeep.ts'
import { type EmbeddedFolder, embeddedFolder } from '../servers/embedded.ts'

let folder: EmbeddedFolder
let database: EmbeddedDatabase
beforeEach(async () => {
  folder = await embeddedFolder()
  database = await openEmbedded({ folder: folder.path, upkeepIntervalMs: 0 })
})
afterEach(async () => {
  await database.close()
  await folder.remove()
})

const logFiles = async (): Promise<number> =>
  (await readdir(join(folder.path, 'pg_wal'))).filter(name => /^[0-9A-F]{24}$/.test(name)).length
const writeLog = (megabytes: number): Promise<unknown> =>
  database.query(`SELECT count(pg_logical_emit_message(false, 'test', repeat('x', 1000000))) FROM generate_series(1, $1)`, [megabytes])

test('the write-ahead log does not grow without limit', async () => {
  for (let round = 0; round < 6; round += 1) {
    await writeLog(70)
    await tend(database)
  }
  // 420 MB were written: without checkpoints these would be 26 files of 16 MB.
  expect(await logFiles()).toBeLessThanOrEqual(12)
})

test('a table that grew is vacuumed and analyzed, once', async () => {
  await database.execute('CREATE TABLE plants (id int4); INSERT INTO plants SELECT generate_series(1, 5000)')
  await tend(database)
  const counts = (): Promise<unknown> =>
    database.query('SELECT vacuum_count::int4, analyze_count::int4, n_live_tup::int4 FROM pg_stat_user_tables')
  expect(await counts()).toEqual([{ vacuum_count: 1, analyze_count: 1, n_live_tup: 5000 }])
  await tend(database)
  expect(await counts()).toEqual([{ vacuum_count: 1, analyze_count: 1, n_live_tup: 5000 }])
})

test('deleted rows leave space for new ones', async () => {
  await database.execute(
    'CREATE TABLE plants (id int4, name text); INSERT INTO plants SELECT id, $$oak$$ FROM generate_series(1, 5000) AS id',
  )
  for (let round = 0; round < 10; round += 1) {
    await database.execute(`UPDATE plants SET name = name || '.'`)
    await tend(database)
  }
  const [size] = await database.query(`SELECT pg_relation_size('plants')::int4 AS bytes, count(*)::int4 AS rows FROM plants`)
  expect(Number(size?.['bytes'])).toBeLessThan(4 * 5000 * 50)
})

test('a failure is reported, and the next check retries', async () => {
  const failure = new DatabaseError('disk full', { sqlState: '53100', cause: undefined })
  const told: unknown[] = []
  const failing = { ...database, query: () => Promise.reject(failure) }
  const start = (told: unknown[]) => startUpkeep(failing, { upkeepIntervalMs: 5, onUpkeepFailure: error => told.push(error) })
  const upkeep = start(told)
  await expect.poll(() => told.length).toBeGreaterThan(2)
  expect(told[0]).toBe(failure)
  await upkeep.stop()
  const before = told.length
  // Another one, whose checks come after those of the first if that still has any.
  const toldLater: unknown[] = []
  const later = start(toldLater)
  await expect.poll(() => toldLater.length).toBeGreaterThan(2)
  await later.stop()
  expect(told).toHaveLength(before)
})
