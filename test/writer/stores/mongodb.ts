// The document store of a site: FerretDB, read by the driver and by code of the tests' own.

import { type Document, MongoClient } from 'mongodb'
import { startMongo } from '../../servers/mongo.ts'
import { openProxy } from '../../servers/proxy.ts'
import { documentText, senmlText } from '../messages.ts'
import type { StoredRow, StoreSite } from './store-site.ts'

const pageRows = 5_000

export async function openMongodbSite(): Promise<StoreSite> {
  const server = await startMongo()
  const proxy = await openProxy({ port: Number(new URL(server.url).port) })
  const url = `${server.url}sluice`
  return {
    name: 'document',
    proxy,
    environment: {
      SVC_DOCUMENT_URL: `mongodb://127.0.0.1:${proxy.port}/sluice`,
      // It writes one insert at a time, whoever sends them: more would only wait for each other until they are given up, and be sent again.
      SVC_STORE_WRITES_IN_FLIGHT: '1',
      SVC_STORE_REQUEST_TIMEOUT_MS: '5000',
      SVC_STORE_CONNECT_TIMEOUT_MS: '1000',
    },
    directEnvironment: { SVC_DOCUMENT_URL: url },
    rows: () => rowsOf(url),
    kill: () => server.kill(),
    restart: how => server.restart(how),
    async close() {
      await proxy.close()
      await server.stop()
    },
  }
}

/** Each question on a connection of its own: the server is killed now and then. */
async function* rowsOf(url: string): AsyncGenerator<StoredRow> {
  const client = new MongoClient(url, { serverSelectionTimeoutMS: 5_000, promoteBuffers: true })
  try {
    const database = client.db()
    for await (const row of database.collection('messages').find().sort({ _id: 1 }).batchSize(pageRows)) {
      const { channel, publisher, subtopic, name, value, timeUs } = row as Document
      yield { table: 'messages', ...placeOf(row), text: senmlText({ channel, publisher, subtopic, name, value, seconds: timeUs / 1e6 }) }
    }
    for (const { _id: format, collection } of await database.collection('sluice.formats').find().toArray()) {
      for await (const row of database
        .collection(collection as string)
        .find()
        .sort({ _id: 1 })
        .batchSize(pageRows)) {
        const { channel, publisher, subtopic, payload } = row as Document
        yield { table: String(format), ...placeOf(row), text: documentText({ channel, publisher, subtopic, payload }) }
      }
    }
  } finally {
    await client.close()
  }
}

/** `_id` is the position, 7 bits of the log, 12 of the partition and 44 of the offset, and 4 bytes of the index. */
function placeOf({ _id }: Document): Pick<StoredRow, 'partition' | 'offset' | 'index'> {
  const id = _id as Buffer
  const position = id.readBigUInt64BE()
  return { partition: Number((position >> 44n) & 0xfffn), offset: Number(position & 0xfff_ffff_ffffn), index: id.readUInt32BE(8) }
}
