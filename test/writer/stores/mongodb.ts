// The document store of a site: FerretDB, read with the driver and the tests' own code.

import { type Document, MongoClient } from 'mongodb'
import { physicalName } from '../../../sinks/mongodb/registry.ts'
import { startMongo } from '../../servers/mongo.ts'
import { openProxy } from '../../servers/process/proxy.ts'
import { documentText, formats, senmlText } from '../messages.ts'
import { placeAt, type StoredRow, type StoreSite } from './store-site.ts'

const pageRows = 5_000

export async function openMongodbSite(): Promise<StoreSite> {
  const server = await startMongo()
  const proxy = await openProxy({ port: Number(new URL(server.url).port) })
  const url = `${server.url}sluice`
  await makeCollections(url)
  return {
    name: 'document',
    proxy,
    environment: {
      SVC_DOCUMENT_URL: `mongodb://127.0.0.1:${proxy.port}/sluice`,
      // It writes one insert at a time for all clients: further ones would wait for each other until they time out, and be sent again.
      SVC_STORE_WRITES_IN_FLIGHT: '1',
      SVC_STORE_REQUEST_TIMEOUT_MS: '10000',
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

/**
 * FerretDB creates a collection in one statement and its index of `_id` in another: if it is killed in between, the collection accepts an `_id` twice.
 * MongoDB creates both in one step. So the collections are created before any fault.
 */
async function makeCollections(url: string): Promise<void> {
  const client = new MongoClient(url)
  try {
    for (const format of formats) await client.db().createCollection(physicalName(format))
  } finally {
    await client.close()
  }
}

/** Each query has its own connection, because the server is killed from time to time. */
async function* rowsOf(url: string): AsyncGenerator<StoredRow> {
  const client = new MongoClient(url, { serverSelectionTimeoutMS: 60_000, promoteBuffers: true })
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

/** `_id` is the position, and 4 bytes of the index. */
function placeOf({ _id }: Document): Pick<StoredRow, 'partition' | 'offset' | 'index'> {
  const id = _id as Buffer
  return { ...placeAt(id.readBigUInt64BE()), index: id.readUInt32BE(8) }
}
