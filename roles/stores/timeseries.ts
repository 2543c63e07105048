// The time-series store: InfluxDB.

import { type ReaderStoreOptions, readerStoreOptions } from '../../readers/influxdb/options.ts'
import type { Connection } from '../../sinks/influxdb/connection.ts'
import { type SinkOptions, secretsOf, sinkOptions, urlFaults } from '../../sinks/influxdb/options.ts'
import { keyedStore } from './keyed.ts'
import type { StoreKind } from './store.ts'

export const timeseries: StoreKind<SinkOptions, ReaderStoreOptions> = {
  name: 'timeseries',
  options: sinkOptions,
  readerOptions: readerStoreOptions,
  takesFlat: true,
  faults: ({ url }) => urlFaults(url).map(({ problem }) => ({ place: 'store.url', problem })),
  secrets: secretsOf,
  ...keyedStore<SinkOptions, ReaderStoreOptions, Connection>({
    connection: () => import('../../sinks/influxdb/connection.ts'),
    sink: () => import('../../sinks/influxdb/sink.ts'),
    schema: () => import('../../sinks/influxdb/schema.ts'),
    openReader: async () => (await import('../../readers/influxdb/reader.ts')).openInfluxdbReader,
    audit: () => import('../../sinks/influxdb/audit.ts'),
  }),
}
