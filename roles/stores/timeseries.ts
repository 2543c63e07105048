// The time-series store: InfluxDB.

import { readTlsFiles } from '../../config/tls-files.ts'
import { type SinkOptions, secretsOf, sinkOptions, urlFaults } from '../../sinks/influxdb/options.ts'
import type { StoreKind } from './store.ts'

export const timeseries: StoreKind<SinkOptions> = {
  name: 'timeseries',
  options: sinkOptions,
  keepsPositions: false,
  takesFlat: true,
  faults: ({ url }) => urlFaults(url).map(({ problem }) => ({ place: 'store.url', problem })),
  secrets: secretsOf,

  async open(options, writer) {
    const { openConnection } = await import('../../sinks/influxdb/connection.ts')
    const { classify, openSink } = await import('../../sinks/influxdb/sink.ts')
    const { maintain } = await import('../../sinks/influxdb/schema.ts')
    const connection = await openConnection(options, `sluice-writer-${writer}`, await readTlsFiles('store', options))
    return {
      openSink: (identity, onNotice) => openSink({ connection, options, onNotice, ...identity }),
      classify,
      maintain: () => maintain(connection, options),
      close: () => connection.close(),
    }
  },

  async openAudit(options) {
    const { openConnection } = await import('../../sinks/influxdb/connection.ts')
    const { openAudit } = await import('../../sinks/influxdb/audit.ts')
    const connection = await openConnection(options, 'sluice-audit', await readTlsFiles('store', options))
    return { ...openAudit(connection, options), close: () => connection.close() }
  },
}
