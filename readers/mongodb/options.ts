// Options of the MongoDB reader: the database and who comes, as its sink has them, and what one question may take.

import { type Static, Type } from 'typebox'
import { sinkOptions } from '../../sinks/mongodb/options.ts'

const { url, user, password, caFile, certFile, keyFile, connectTimeoutMs } = sinkOptions.properties

/** The section `store` of a reader of the document store. */
export const readerStoreOptions = Type.Object({
  url: Type.String({
    ...url,
    description:
      'The MongoDB database that messages are stored in. Of its parameters, `readConcernLevel`, `readPreference` and the time-outs do not count.',
  }),
  user,
  password,
  caFile,
  certFile,
  keyFile,
  connectTimeoutMs: Type.Integer({
    ...connectTimeoutMs,
    description: 'Milliseconds in which a server has to be found that answers, and in which a connection has to stand.',
  }),
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
    description: 'Connections to each server that this process holds at most: as many questions are answered at once, and others wait.',
  }),
})
export type ReaderStoreOptions = Static<typeof readerStoreOptions>
