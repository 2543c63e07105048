// Options of the PostgreSQL reader: limits for queries.

import { type Static, Type } from 'typebox'

/** The options, with their defaults and descriptions. */
export const readerStoreOptions = Type.Object({
  queryTimeoutMs: Type.Integer({
    default: 30_000,
    minimum: 100,
    maximum: 600_000,
    description: 'Milliseconds that one query may take; a longer one gets 422.',
  }),
  connectionsMax: Type.Integer({
    default: 10,
    minimum: 1,
    maximum: 1_000,
    description: 'Most connections of this process to the store; further queries wait.',
  }),
})
/** The options of a reader. */
export type ReaderStoreOptions = Static<typeof readerStoreOptions>
