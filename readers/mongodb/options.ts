// Options of the MongoDB reader: the sink's for the database and the login, and limits for queries.

import { type Static, Type } from 'typebox'
import { sinkOptions } from '../../sinks/mongodb/options.ts'
import { queryTimeoutMs } from '../options.ts'

const { url, user, password, caFile, certFile, keyFile, connectTimeoutMs } = sinkOptions.properties

/** The section `store`. */
export const readerStoreOptions = Type.Object({
  url: Type.String({
    ...url,
    description:
      'The MongoDB database that messages are stored in. Its parameters `readConcernLevel`, `readPreference` and time-outs have no effect.',
  }),
  user,
  password,
  caFile,
  certFile,
  keyFile,
  connectTimeoutMs: Type.Integer({
    ...connectTimeoutMs,
    description: 'Milliseconds to wait for a server that answers, and for a connection to it.',
  }),
  queryTimeoutMs,
  connectionsMax: Type.Integer({
    default: 10,
    minimum: 1,
    maximum: 1_000,
    description: 'Most connections of this process to each server: as many queries run at once, and others wait.',
  }),
})
/** The options of a reader. */
export type ReaderStoreOptions = Static<typeof readerStoreOptions>
