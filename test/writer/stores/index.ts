// The stores in which writers may work in these tests, by name; each starts its own server.

import type { StoreName } from '../../../roles/stores/store.ts'
import { missingCassandra } from '../../servers/cassandra.ts'
import { influxServer } from '../../servers/influx.ts'
import { missingPostgres } from '../../servers/install/postgres.ts'
import { mongoServer } from '../../servers/mongo.ts'
import type { StoreSite } from './store-site.ts'

export const storeSites: Readonly<Record<StoreName, () => Promise<StoreSite>>> = {
  relational: async () => (await import('./relational.ts')).openRelationalSite(),
  widecolumn: async () => (await import('./cassandra.ts')).openCassandraSite(),
  timeseries: async () => (await import('./influxdb.ts')).openInfluxdbSite(),
  document: async () => (await import('./mongodb.ts')).openMongodbSite(),
}

/** Why the server of a store is not available on this machine; undefined if it is. */
export const missingStores: Readonly<Record<StoreName, () => string | undefined>> = {
  relational: missingPostgres,
  widecolumn: missingCassandra,
  timeseries: influxServer.missing,
  document: mongoServer.missing,
}
