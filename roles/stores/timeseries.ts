// The time-series store: InfluxDB.

import { type SinkOptions, secretsOf, sinkOptions, urlFaults } from '../../sinks/influxdb/options.ts'
import { keyedStore } from './keyed.ts'
import type { StoreKind } from './store.ts'

export const timeseries: StoreKind<SinkOptions> = {
  name: 'timeseries',
  options: sinkOptions,
  takesFlat: true,
  faults: ({ url }) => urlFaults(url).map(({ problem }) => ({ place: 'store.url', problem })),
  secrets: secretsOf,
  ...keyedStore({
    connection: () => import('../../sinks/influxdb/connection.ts'),
    sink: () => import('../../sinks/influxdb/sink.ts'),
    schema: () => import('../../sinks/influxdb/schema.ts'),
    audit: () => import('../../sinks/influxdb/audit.ts'),
  }),
}
