// Options of the PostgreSQL sink.

import { type Static, Type } from 'typebox'
import { formatOptions, retentionOptions } from '../options.ts'

const mebibyte = 1024 * 1024

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
  ...retentionOptions,
  seriesPerChannelMax: Type.Integer({
    default: 100_000,
    minimum: 1,
    maximum: 100_000_000,
    description:
      'Most series (publisher, subtopic, name, unit and protocol) that a channel may number; rows of further ones keep their texts, and are larger.',
  }),
  seriesCacheBytes: Type.Integer({
    default: 32 * mebibyte,
    minimum: mebibyte,
    maximum: 16_384 * mebibyte,
    description: 'Bytes of the series that each worker remembers, about 270 for one; of those beyond it each batch asks the store again.',
  }),
})
export type SinkOptions = Static<typeof sinkOptions>
