// The stores where writers may work in these tests, by name; each starts a server of its own.

import type { StoreName } from '../../../roles/stores/store.ts'
import type { StoreSite } from './store-site.ts'

export const storeSites: Readonly<Record<StoreName, () => Promise<StoreSite>>> = {
  relational: async () => (await import('./relational.ts')).openRelationalSite(),
  widecolumn: async () => (await import('./cassandra.ts')).openCassandraSite(),
  timeseries: async () => (await import('./influxdb.ts')).openInfluxdbSite(),
  document: async () => (await import('./mongodb.ts')).openMongodbSite(),
}
