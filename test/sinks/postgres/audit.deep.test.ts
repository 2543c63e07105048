// The audit of a PostgreSQL store, on the embedded database and on a server, and that of the fake one.

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Database } from '../../../database/database.ts'
import { openServer } from '../../../database/server.ts'
import { freeLog } from '../../../sinks/logs.ts'
import { openAudit } from '../../../sinks/postgres/audit.ts'
import { freeLog as freePostgresLog, rowTables } from '../../../sinks/postgres/registry.ts'
import { auditConformance } from '../../conformance/audit.ts'
import { type AuditedStore, all, type ForeignChange } from '../../conformance/audited-store.ts'
import { openFreshEmbedded } from '../../servers/embedded.ts'
import { describeWithOwnPostgres } from '../../servers/postgres.ts'
import { batchOf, plain, plainBatch } from '../batches.ts'
import { openFakeAudit } from '../fake-audit.ts'
import { openFakeReplaySink } from '../fake-replays.ts'
import { createFakeStore, logTable, openFakeSink } from '../fake-sink.ts'
import { emptyDatabase, storeOn } from './store.ts'

auditConformance('the fake audit', async () => {
  const store = createFakeStore()
  return {
    open: identity => openFakeSink({ store, ...identity }),
    openReplay: async logNumber => openFakeReplaySink(store, logNumber),
    audit: openFakeAudit(store),
    double: async position => void store.rows.push(...store.rows.filter(row => row.position === position)),
    remove: async position => {
      const kept = store.rows.filter(row => row.position !== position)
      store.rows.splice(0, store.rows.length, ...kept)
    },
    foreignChanges: {},
    dropFormat: async format => {
      const kept = store.rows.filter(row => row.table !== format)
      store.rows.splice(0, store.rows.length, ...kept)
    },
    free: number => freeLog(logTable(store), number, openFakeAudit(store)),
    close: async () => undefined,
  }
})

async function storeOf(database: Database): Promise<AuditedStore> {
  await emptyDatabase(database)
  const update = (of: ForeignChange['of'], column: string, change: string): ForeignChange => ({
    of,
    column,
    change: position =>
      database.query(`UPDATE ${of === 'record' ? 'sluice.records' : 'formats.engine'} SET ${change} WHERE position = $1`, [position]),
  })
  const store = storeOn(database, async () => undefined)
  return {
    open: identity => store.open(identity),
    openReplay: logNumber => store.replays.openSink(logNumber),
    audit: openAudit(database),
    double: async position =>
      void (await database.query('INSERT INTO sluice.records SELECT * FROM sluice.records WHERE position = $1', [position])),
    async remove(position) {
      for (const { table } of await rowTables(database)) await database.query(`DELETE FROM ${table} WHERE position = $1`, [position])
    },
    foreignChanges: {
      'a time that is infinite': update('record', 'time', "time = 'infinity'"),
      'a time before any': update('record', 'time', "time = '-infinity'"),
      'a value that is no number': update('record', 'value', "value = 'NaN'"),
      'a sum that is infinite': update('record', 'sum', "sum = 'Infinity'"),
      'empty bytes': update('record', 'data_value', "data_value = ''"),
      'a payload that is no object': update('document', 'payload', "payload = '[]'"),
    },
    dropFormat: format => database.execute(`DROP TABLE formats."${format}"`),
    shown: async statement => (await database.query(statement)).length,
    free: number => freePostgresLog(database, number),
    close: async () => undefined,
  }
}

describe('embedded', () => {
  let database: Database

  beforeAll(async () => {
    database = await openFreshEmbedded()
  })
  afterAll(() => database.close())

  auditConformance('the audit, embedded', () => storeOf(database))

  test('rows whose series is missing are hidden, as they are from readers', async () => {
    const store = await storeOf(database)
    const sink = await store.open()
    const records = [{ name: 'a' }, { name: 'b' }, { name: 'b' }]
    await sink.write(sink.encode(batchOf(0, 2, [plain(0), { offset: 1, records }])), async () => undefined, new AbortController().signal)
    await database.query("DELETE FROM sluice.series WHERE name = 'b'")
    const found = await all(store.audit.messages(sink.logNumbers[0]!, 0, 0, 2))
    expect(found.map(({ rows, hidden }) => [rows, hidden])).toEqual([
      [1, undefined],
      [1, 2],
    ])
    await sink.close()
  })
})

test('a statement for psql is one line, also with line ends in the channel', async () => {
  const database = await openFreshEmbedded()
  const channel = "a\n'b'\\\u200b"
  const where = { channel, format: 'messages', earliestUs: 1_793_491_199_000_001, latestUs: 1_793_491_199_000_002 }
  const statement = openAudit(database).statementOf!(1, 0, 5, where)!
  expect(statement).toBe(
    `SELECT * FROM public.messages WHERE channel = E'a\\U0000000a''b''\\\\\\U0000200b' AND time BETWEEN '2026-10-31T23:59:59.000001Z' AND '2026-10-31T23:59:59.000002Z' AND position = 72057594037927941;`,
  )
  const [typed] = await database.query(`SELECT ${/E'.*?' (?=AND)/.exec(statement)![0]} AS typed`)
  expect(typed).toEqual({ typed: channel })
  await database.close()
})

describeWithOwnPostgres('server', postgres => {
  let database: Database
  let url: string

  beforeAll(async () => {
    url = await postgres.createDatabase()
    database = await openServer({ url, applicationName: 'audited', connectionsMax: 4 })
  })
  afterAll(() => database.close())

  auditConformance('the audit, on a server', () => storeOf(database))

  test('when it ends early no transaction stays open, and a lost connection is an error', async () => {
    const store = await storeOf(database)
    const sink = await store.open()
    const signal = new AbortController().signal
    for (let at = 0; at < 12_000; at += 4000) await sink.write(sink.encode(plainBatch(at, at + 4000)), async () => undefined, signal)
    for await (const _ of store.audit.messages(sink.logNumbers[0]!, 0, 0, 12_000)) break
    const open = await database.query(`SELECT pid FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'`)
    expect(open).toEqual([])

    const auditor = await openServer({ url, applicationName: 'auditor', connectionsMax: 2 })
    const read = async (): Promise<void> => {
      for await (const { offset } of openAudit(auditor).messages(sink.logNumbers[0]!, 0, 0, 12_000)) {
        if (offset === 10)
          await database.query(`SELECT pg_terminate_backend(pid)::text FROM pg_stat_activity WHERE application_name = 'auditor'`)
      }
    }
    await expect(read()).rejects.toThrow(/PostgreSQL|terminat|connection/i)
    await auditor.close()
    await sink.close()
  })

  test('it needs only read permission', async () => {
    const store = await storeOf(database)
    const sink = await store.open()
    await sink.write(sink.encode(plainBatch(0, 2)), async () => undefined, new AbortController().signal)
    await database.execute(`CREATE ROLE auditor LOGIN; GRANT USAGE ON SCHEMA sluice, formats, public TO auditor;
      GRANT SELECT ON ALL TABLES IN SCHEMA sluice, formats, public TO auditor`)
    const asAuditor = new URL(url)
    asAuditor.username = 'auditor'
    const auditor = await openServer({ url: asAuditor.href, applicationName: 'auditor', connectionsMax: 2 })
    const found: number[] = []
    for await (const { offset } of openAudit(auditor).messages(sink.logNumbers[0]!, 0, 0, 2)) found.push(offset)
    expect(found).toEqual([0, 1])
    expect((await openAudit(auditor).logs())[0]!.partitions.get(0)).toMatchObject({ nextOffset: 2, received: 2, stored: 2 })
    await auditor.close()
    await sink.close()
  })
})
