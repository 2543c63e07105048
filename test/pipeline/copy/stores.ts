// Empty stores on servers, for the tests of copies: each with a database, keyspace or bucket of its own.

import { randomUUID } from 'node:crypto'
import { openServer } from '../../../database/server.ts'
import { openConnection } from '../../../sinks/cassandra/connection.ts'
import { openSink as openInfluxSink } from '../../../sinks/influxdb/sink.ts'
import { type CopiedStore, copiedStore } from '../../conformance/copy.ts'
import type { Cassandra } from '../../servers/cassandra.ts'
import type { InfluxAccess } from '../../servers/influx.ts'
import type { MongoAccess } from '../../servers/mongo.ts'
import type { PostgresAccess } from '../../servers/postgres.ts'
import { dropKeyspace, openStore as openCassandraStore, optionsFor } from '../../sinks/cassandra/store.ts'
import { openStore as openInfluxStore } from '../../sinks/influxdb/store.ts'
import { openStore as openMongoStore } from '../../sinks/mongodb/store.ts'
import { storeOn } from '../../sinks/postgres/store.ts'

export async function postgresStore(postgres: PostgresAccess): Promise<CopiedStore> {
  const database = await openServer({ url: await postgres.createDatabase(), applicationName: 'sluice-test', connectionsMax: 3 })
  return copiedStore({ ...storeOn(database, () => database.close()), readableDuringWrite: true }, true)
}

export async function mongoStore({ url }: MongoAccess): Promise<CopiedStore> {
  const own = `${url}copy_${randomUUID().slice(0, 8)}`
  return copiedStore({ ...(await openMongoStore({ url: own, directUrl: own, poisons: {} })), readableDuringWrite: true }, false)
}

/** Its own sink, which gets documents flattened as from a writer. */
export async function influxStore(influx: InfluxAccess): Promise<CopiedStore> {
  const store = await openInfluxStore(influx, { poisons: {} })
  const { connection, options } = store
  return copiedStore(store, false, log => openInfluxSink({ connection, options, logs: [log] }))
}

export async function cassandraStore({ contactPoint }: Cassandra): Promise<CopiedStore> {
  const options = optionsFor(contactPoint)
  const operator = await openConnection(options, 'operator')
  const store = copiedStore(await openCassandraStore(operator, options), false)
  return {
    ...store,
    async close() {
      await store.close()
      await dropKeyspace(operator)
      await operator.close()
    },
  }
}
