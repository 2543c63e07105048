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
    description:
      'How long a batch waits for its partitions while another connection holds them; after that, a connection of this writer that holds them is terminated.',
  }),
  retentionMonths: Type.Integer({
    default: 0,
    minimum: 0,
    maximum: 1200,
    description: 'Months of messages to keep besides the current one; older ones are deleted daily. 0 keeps all.',
  }),
  nameIndex: Type.Boolean({
    default: false,
    description:
      'Whether to index the records by channel and name, for dashboards that show a few names out of many. The index is created by maintenance, beside the writer; the writer then takes longer for each record.',
  }),
})
export type SinkOptions = Static<typeof sinkOptions>
