// Options of the PostgreSQL sink.

import { type Static, Type } from 'typebox'
import { formatOptions } from '../options.ts'

/** The section `store`, on a server and embedded. */
export const sinkOptions = Type.Object({
  ...formatOptions,
  lockTimeoutMs: Type.Integer({
    default: 10_000,
    minimum: 100,
    maximum: 600_000,
    description: 'Milliseconds that a batch waits for its partitions; then an old connection of this writer that holds them is terminated.',
  }),
  retentionMonths: Type.Integer({
    default: 0,
    minimum: 0,
    maximum: 1200,
    description: 'Months of messages to keep besides the current one; 0 keeps all.',
  }),
  nameIndex: Type.Boolean({
    default: false,
    description: 'Index records by channel and name, for dashboards that show a few names of many; writing gets slower.',
  }),
})
export type SinkOptions = Static<typeof sinkOptions>
