// The audit of a MongoDB store, on FerretDB.

import { runInNewContext } from 'node:vm'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { freeLog } from '../../../sinks/logs.ts'
import { openAudit } from '../../../sinks/mongodb/audit.ts'
import { type Connection, openConnection } from '../../../sinks/mongodb/connection.ts'
import { classify } from '../../../sinks/mongodb/errors.ts'
import { openLogTable, physicalName } from '../../../sinks/mongodb/registry.ts'
import { auditConformance } from '../../conformance/audit.ts'
import type { AuditedStore, ForeignChange } from '../../conformance/audited-store.ts'
import { describeWithOwnMongo } from '../../servers/mongo.ts'
import { batchOf, plain, type TestMessage } from '../batches.ts'
import { openStore, optionsOf } from './store.ts'

describeWithOwnMongo('FerretDB', mongo => {
  const ignoreRefused = async (): Promise<void> => undefined
  const { signal } = new AbortController()
  let connection: Connection
  beforeAll(async () => {
    connection = await openConnection(optionsOf(`${mongo.url}audited`), 'auditor')
  })
  afterAll(() => connection.close())

  async function openAudited(): Promise<AuditedStore> {
    const url = `${mongo.url}audited`
    const store = await openStore({ url, directUrl: url, poisons: {} })
    const { database } = store
    await database.collection('messages').dropIndex('updateTime_1')
    const rowsAt = (position: bigint): { _id: never } => {
      const bounds = [0, 0xffff_ffff].map(index => {
        const id = Buffer.alloc(12)
        id.writeBigUInt64BE(position)
        id.writeUInt32BE(index, 8)
        return id
      })
      return { _id: { $gte: bounds[0], $lte: bounds[1] } as never }
    }
    const update = (of: ForeignChange['of'], column: string, change: object): ForeignChange => ({
      of,
      column,
      change: position => database.collection(of === 'record' ? 'messages' : 'engine').updateOne(rowsAt(position), change),
    })
    return {
      open: identity => store.open(identity),
      openReplay: logNumber => store.replays.openSink(logNumber),
      audit: openAudit(connection, optionsOf(url)),
      // In a collection no `_id` is twice: a fault would be in another one.
      async double(position) {
        const rows = await database.collection('messages').find(rowsAt(position)).toArray()
        await database.collection('elsewhere').insertMany(rows)
        await database
          .collection('sluice.formats')
          .insertOne({ _id: 'elsewhere' as never, number: 1, collection: 'elsewhere', channel: 'c', createdAt: new Date() })
      },
      async remove(position) {
        const formats = await database.collection('sluice.formats').find().toArray()
        for (const name of ['messages', ...formats.map(({ collection }) => String(collection))])
          await database.collection(name).deleteMany(rowsAt(position))
      },
      foreignChanges: {
        'the date of a time': update('record', 'time', { $set: { time: new Date(0) } }),
        'a time without its date': update('record', 'time', { $unset: { time: 1 } }),
        'a number that is a text': update('record', 'value', { $set: { value: '21.5' } }),
        'a sum of another type': update('record', 'sum', { $set: { sum: null } }),
        'a name that is a date': update('record', 'name', { $set: { name: new Date(0) } }),
        'the date of a creation': update('document', 'created', { $set: { createdAt: new Date(0) } }),
        'a protocol that is gone': update('document', 'protocol', { $unset: { protocol: 1 } }),
        'a payload that is a text': update('document', 'payload', { $set: { payload: '{}' } }),
      },
      dropFormat: async format => void (await database.collection(physicalName(format)).drop()),
      async shown(statement) {
        const db = { getCollection: (name: string) => database.collection(name) }
        const bytes = (_subtype: number, base64: string): Uint8Array => Buffer.from(base64, 'base64')
        const found = runInNewContext(statement, { db, BinData: bytes }) as { toArray(): Promise<unknown[]> }
        return (await found.toArray()).length
      },
      free: number => freeLog(openLogTable(connection), number, openAudit(connection, optionsOf(url))),
      close: () => store.close(),
    }
  }

  auditConformance('the audit, on FerretDB', openAudited)

  test('many collections, and one that takes several pages, are counted together in the order of offsets', async () => {
    const store = await openAudited()
    const sink = await store.open()
    const messages: TestMessage[] = Array.from({ length: 600 }, (_, offset) => {
      if (offset % 3 === 0) return { offset, records: Array.from({ length: 27 }, (_, value) => ({ value })) }
      const documents = Array.from({ length: 1 + (offset % 5) }, () => ({ format: `format-${offset % 160}`, payload: { offset } }))
      return { offset, channel: `channel-${offset % 10}`, documents }
    })
    await sink.write(sink.encode(batchOf(0, 600, messages)), ignoreRefused, signal)
    const found: { offset: number; rows: number }[] = []
    for await (const { offset, rows, doubled } of store.audit.messages(sink.logNumbers[0]!, 0, 0, 600)) {
      expect(doubled).toBe(0)
      found.push({ offset, rows })
    }
    expect(found).toEqual(messages.map(({ offset, records, documents }) => ({ offset, rows: (records ?? documents)!.length })))
    await sink.close()
    await store.close()
  })

  test('the last offsets of the last partition are found, without the first ones of the next', async () => {
    const store = await openAudited()
    const sink = await store.open()
    const last = 2 ** 44 - 1
    await sink.write(sink.encode(batchOf(last, last + 1, [plain(last)], 7)), ignoreRefused, signal)
    await sink.write(sink.encode(batchOf(0, 1, [plain(0)], 8)), ignoreRefused, signal)
    const found: number[] = []
    for await (const { offset } of store.audit.messages(sink.logNumbers[0]!, 7, last - 10, last + 1)) found.push(offset)
    expect(found).toEqual([last])
    await sink.close()
    await store.close()
  })

  test('a server that is down is an error', async () => {
    const store = await openAudited()
    const sink = await store.open()
    await sink.close()
    await mongo.kill()
    try {
      // What the driver says depends on what it was doing: connecting, reading, writing to a socket that had just ended.
      await expect(store.audit.logs()).rejects.toSatisfy(error => classify(error) === 'transient')
    } finally {
      await mongo.restart()
      await store.close()
    }
  })
})
