// Options of the PostgreSQL sink.

import { type Static, Type } from 'typebox'
import { formatOptions } from '../format-registry.ts'

/** The section `store`, on a server and embedded. */
export const sinkOptions = Type.Object({
  ...formatOptions,
  lockTimeoutMs: Type.Integer({
    default: 10_000,
    minimum: 100,
    maximum: 600_000,
    description: 'How long a batch waits for its partitions while another connection holds them; then one of this writer is ended.',
  }),
  retentionMonths: Type.Integer({
    default: 0,
    minimum: 0,
    maximum: 1200,
    description: 'Months of messages that are kept beside the current one; older ones are deleted daily. 0 keeps all.',
  }),
})
export type SinkOptions = Static<typeof sinkOptions>
