// The raw loop for comparison with the MongoDB sink: unordered insertMany of 1,000 documents, four in flight, by the driver.
//
// The documents are objects prepared before the measurement: the same fields as the sink's, with the driver's types. The driver serialises them
// during the measurement, as in any program that uses it.

import type { Document, MongoClient } from 'mongodb'
import { openAudit } from '../../sinks/mongodb/audit.ts'
import { openConnection } from '../../sinks/mongodb/connection.ts'
import type { SinkOptions } from '../../sinks/mongodb/options.ts'
import { makeIndexes, rowIndexes } from '../../sinks/mongodb/registry.ts'
import { openSink } from '../../sinks/mongodb/sink.ts'
import { positionHighAt, positionLow } from '../../sinks/sink.ts'
import { startMongo } from '../../test/servers/mongo.ts'
import { type RecordBatch, ValueKind } from '../../transformers/record-batch.ts'
import type { RawStore } from '../stores/raw-store.ts'

const documentsPerInsert = 1_000
const insertsInFlight = 4
/** The sink registers its log as the first one. */
const logNumber = 1

/** On FerretDB, or on the server of MONGODB_URL. */
export async function openRaw(): Promise<RawStore> {
  const { Binary, Double, Long, MongoClient } = await import('mongodb')
  const real = process.env['MONGODB_URL']
  const server = real === undefined ? await startMongo() : undefined
  const url = new URL(real ?? server!.url)
  url.pathname = '/sluice_benchmark'
  const options: SinkOptions = {
    url: url.href,
    formatsMax: 1000,
    formatsPerChannelMax: 32,
    writeConcern: 'majority',
    journal: true,
    writesInFlight: insertsInFlight,
    requestTimeoutMs: 60_000,
    connectTimeoutMs: 5_000,
    retentionDays: 0,
  }
  const client: MongoClient = new MongoClient(url.href, {
    retryWrites: false,
    writeConcern: { w: 'majority', journal: true },
    maxPoolSize: insertsInFlight,
  })
  const connection = await openConnection(options, 'benchmark')
  const database = client.db()
  await database.dropDatabase()
  await makeIndexes(connection, 'messages', rowIndexes('timeUs'))

  function documentsOf({ messages, records }: RecordBatch): Document[] {
    return Array.from({ length: records.length }, (_, at) => {
      const message = records.message[at]!
      const id = Buffer.alloc(12)
      id.writeUInt32BE(positionHighAt([logNumber], messages.at[message]!, messages.offset[message]!))
      id.writeUInt32BE(positionLow(messages.offset[message]!), 4)
      id.writeUInt32BE(records.index[at]!, 8)
      const unit = records.unit[at]
      return {
        _id: new Binary(id),
        channel: messages.channel[message]!,
        subtopic: messages.subtopic[message]!,
        publisher: messages.publisher[message]!,
        protocol: messages.protocol[message]!,
        name: records.name[at]!,
        ...(unit === undefined ? {} : { unit }),
        time: new Date(records.timeUs[at]! / 1000),
        timeUs: Long.fromNumber(records.timeUs[at]!),
        ...(records.valueKind[at] === ValueKind.number ? { value: new Double(records.number[at]!) } : {}),
      }
    })
  }

  return {
    server: real === undefined ? 'FerretDB 1.24.2 on SQLite' : 'the server of MONGODB_URL',
    parameters: `unordered insertMany of ${documentsPerInsert.toLocaleString('en-US')}, ${insertsInFlight} in flight`,
    ready(batches) {
      const all = batches.flatMap(documentsOf)
      const inserts: Document[][] = []
      for (let at = 0; at < all.length; at += documentsPerInsert) inserts.push(all.slice(at, at + documentsPerInsert))
      return inserts
    },
    async run(ready) {
      const inserts = ready as Document[][]
      let taken = 0
      const worker = async (): Promise<void> => {
        while (taken < inserts.length) await database.collection('messages').insertMany(inserts[taken++]!, { ordered: false })
      }
      await Promise.all(Array.from({ length: insertsInFlight }, worker))
    },
    async empty() {
      await database.collection('messages').drop()
      await makeIndexes(connection, 'messages', rowIndexes('timeUs'))
    },
    openSink: () => openSink({ connection, options, logs: [{ logName: 'messages', logId: 'benchmark', writer: 'benchmark' }] }),
    openAudit: () => openAudit(connection, options),
    count: () => database.collection('messages').countDocuments(),
    async close() {
      await connection.close()
      await client.close()
      await server?.stop()
    },
  }
}
