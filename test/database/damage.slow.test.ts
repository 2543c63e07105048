// Damaged files of the embedded database: each leads to an error that says what to do.

import { randomBytes } from 'node:crypto'
import { closeSync, openSync, readdirSync, rmSync, truncateSync, writeFileSync, writeSync } from 'node:fs'
import { cp } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { checkIntegrity, DamagedDatabaseError, openEmbedded } from '../../database/embedded/embedded.ts'
import { firstOf } from '../depth.ts'
import { type EmbeddedFolder, embeddedFolder } from '../servers/embedded.ts'

const pageBytes = 8192

let good: EmbeddedFolder
/** Files of the table `plants`, its primary key, and its index on JSON, relative to the folder. */
let files: { table: string; key: string; json: string }
let copies: EmbeddedFolder[] = []

beforeAll(async () => {
  good = await embeddedFolder()
  const database = await openEmbedded({ folder: good.path, upkeepIntervalMs: 0 })
  await database.execute(`
    CREATE TABLE plants (id int4 PRIMARY KEY, name text, traits jsonb);
    CREATE INDEX plants_traits ON plants USING gin (traits);
    INSERT INTO plants SELECT id, repeat('leaf ', 20), '{"green": true}' FROM generate_series(1, 3000) AS id;
    DELETE FROM plants WHERE id % 50 = 0;
    UPDATE plants SET name = 'moss' WHERE id % 60 = 1`)
  const [row] = await database.query<typeof files>(
    `SELECT pg_relation_filepath('plants') AS table, pg_relation_filepath('plants_pkey') AS key, pg_relation_filepath('plants_traits') AS json`,
  )
  files = row!
  await database.close()
})
afterEach(async () => {
  await Promise.all(copies.map(copy => copy.remove()))
  copies = []
})
afterAll(() => good.remove())

async function damagedBy(damage: (folder: string) => void): Promise<string> {
  const copy = await embeddedFolder(good.path)
  copies.push(copy)
  damage(copy.path)
  return copy.path
}

function overwrite(path: string, bytes: Uint8Array, at = 0): void {
  const file = openSync(path, 'r+')
  writeSync(file, bytes, 0, bytes.length, at)
  closeSync(file)
}

async function failureOf(work: Promise<unknown>): Promise<DamagedDatabaseError> {
  const error = await work.then(
    () => undefined,
    (error: unknown) => error,
  )
  expect(error).toBeInstanceOf(DamagedDatabaseError)
  return error as DamagedDatabaseError
}

describe('a folder that cannot be opened', () => {
  test.each(
    firstOf<[string, (folder: string) => void, RegExp]>([
      [
        'pg_control of zeros',
        folder => overwrite(join(folder, 'global/pg_control'), new Uint8Array(pageBytes)),
        /incompatible with server/,
      ],
      ['pg_control is missing', folder => rmSync(join(folder, 'global/pg_control')), /could not open file "global\/pg_control"/],
      ['pg_control is short', folder => truncateSync(join(folder, 'global/pg_control'), 100), /could not read file "global\/pg_control"/],
      ['PG_VERSION is missing', folder => rmSync(join(folder, 'PG_VERSION')), /PG_VERSION is missing/],
      ['PG_VERSION is empty', folder => truncateSync(join(folder, 'PG_VERSION'), 0), /does not contain valid data/],
      ['the write-ahead log is garbage', eachLog(path => overwrite(path, randomBytes(65_536))), /valid checkpoint record/],
      ['the write-ahead log is missing', eachLog(path => rmSync(path)), /valid checkpoint record/],
      ['the folder of the write-ahead log is missing', folder => rmSync(join(folder, 'pg_wal'), { recursive: true }), /pg_wal/],
      ['a catalog is empty', folder => truncateSync(join(folder, 'base/5/1259'), 0), /critical system index/],
      ['a catalog is garbage', folder => overwrite(join(folder, 'base/5/1259'), randomBytes(pageBytes)), /invalid page in block 0/],
      [
        'the relation map is zeros',
        folder => overwrite(join(folder, 'base/5/pg_filenode.map'), new Uint8Array(512)),
        /relation mapping file/,
      ],
      ['the transaction states are missing', folder => rmSync(join(folder, 'pg_xact/0000')), /status of transaction/],
      ['the configuration is missing', folder => rmSync(join(folder, 'postgresql.conf')), /configuration file/],
    ]),
  )('%s', async (_, damage, finding) => {
    const folder = await damagedBy(damage)
    const error = await failureOf(openEmbedded({ folder }))
    expect(error.message).toMatch(finding)
    expect(error.message).toContain(`the embedded database in ${folder} is damaged`)
    expect(error.message).toMatch(/Restore the folder from a backup, or move it away/)
    expect(error.transient).toBe(false)
  })

  test('files of another version of PostgreSQL do not count as damaged', async () => {
    const folder = await damagedBy(folder => writeFileSync(join(folder, 'PG_VERSION'), '17\n'))
    const error = await openEmbedded({ folder }).catch((error: unknown) => error)
    expect(error).not.toBeInstanceOf(DamagedDatabaseError)
    expect(String(error)).toMatch(/was created by PostgreSQL 17/)
  })
})

describe('damage that is found in use', () => {
  test.each(
    firstOf<[string, (folder: string) => void]>([
      ['a page of garbage', folder => overwrite(join(folder, files.table), randomBytes(pageBytes), 3 * pageBytes)],
      ['a missing file', folder => rmSync(join(folder, files.table))],
    ]),
  )('%s', async (_, damage) => {
    const database = await openEmbedded({ folder: await damagedBy(damage) })
    const error = await failureOf(database.query('SELECT count(*) FROM plants WHERE name IS NOT NULL'))
    expect(error.message).toContain(files.table)
    await database.close()
  })
})

describe('the check', () => {
  test('finds nothing wrong with an intact database, and leaves nothing in it', async () => {
    const folder = await damagedBy(() => undefined)
    const database = await openEmbedded({ folder })
    await checkIntegrity(database)
    expect(await database.query(`SELECT extname FROM pg_extension WHERE extname <> 'plpgsql'`)).toEqual([])
    await database.close()
  })

  test.each(
    firstOf<[string, (folder: string) => void]>([
      ['a table of zeros in the middle', folder => overwrite(join(folder, files.table), new Uint8Array(pageBytes), 3 * pageBytes)],
      ['a table that is short', folder => truncateSync(join(folder, files.table), 5 * pageBytes)],
      ['a table that is empty', folder => truncateSync(join(folder, files.table), 0)],
      ['a table whose file is missing', folder => rmSync(join(folder, files.table))],
      ['a page of garbage in a table', folder => overwrite(join(folder, files.table), randomBytes(pageBytes), 3 * pageBytes)],
      ['a page of garbage in an index', folder => overwrite(join(folder, files.key), randomBytes(pageBytes), 2 * pageBytes)],
      ['a page of zeros in an index', folder => overwrite(join(folder, files.key), new Uint8Array(pageBytes), 2 * pageBytes)],
      ['an index that is short', folder => truncateSync(join(folder, files.key), 3 * pageBytes)],
      ['an index that is empty', folder => truncateSync(join(folder, files.key), 0)],
      ['a page of garbage in an index on JSON', folder => overwrite(join(folder, files.json), randomBytes(pageBytes), pageBytes)],
    ]),
  )('finds %s', async (_, damage) => {
    const database = await openEmbedded({ folder: await damagedBy(damage), upkeepIntervalMs: 0 })
    expect((await failureOf(checkIntegrity(database))).message).toMatch(namesPlants())
    await database.close()
  })

  // As after a power cut: only one of the two reached the disk. The checksums of both are valid.
  test.each(firstOf(['table', 'key'] as const))('finds an outdated %s', async file => {
    const folder = await damagedBy(() => undefined)
    const database = await openEmbedded({ folder, upkeepIntervalMs: 0 })
    await database.execute(`INSERT INTO plants SELECT id, 'new', '{}' FROM generate_series(4000, 4200) AS id`)
    await database.close()
    await cp(join(good.path, files[file]), join(folder, files[file]), { force: true })
    const again = await openEmbedded({ folder, upkeepIntervalMs: 0 })
    expect((await failureOf(checkIntegrity(again))).message).toMatch(namesPlants())
    await again.close()
  })
})

/** PostgreSQL names a relation, or its file if it cannot read that. */
const namesPlants = (): RegExp => new RegExp(`plants|${files.table}|${files.key}|${files.json}`)

function eachLog(damage: (path: string) => void): (folder: string) => void {
  return folder => {
    for (const name of readdirSync(join(folder, 'pg_wal'))) if (/^[0-9A-F]{24}$/.test(name)) damage(join(folder, 'pg_wal', name))
  }
}
