// Options of the PostgreSQL reader: what one question may take of the server.

import { type Static, Type } from 'typebox'

export const readerStoreOptions = Type.Object({
  queryTimeoutMs: Type.Integer({
    default: 30_000,
    minimum: 100,
    maximum: 600_000,
    description: 'Milliseconds that one question may take in the store; one that takes longer is answered 422.',
  }),
  connectionsMax: Type.Integer({
    default: 10,
    minimum: 1,
    maximum: 1_000,
    description: 'Connections to the store that this process holds at most: as many questions are answered at once, and others wait.',
  }),
})
export type ReaderStoreOptions = Static<typeof readerStoreOptions>
