// The section `store` of a writer to the relational store, and of a reader of it: a PostgreSQL server.

import { type Static, Type } from 'typebox'
import { readerStoreOptions } from '../../readers/postgres/options.ts'
import { sinkOptions } from '../../sinks/postgres/options.ts'

const url = Type.String({
  pattern: '^postgres(ql)?://.',
  secret: true,
  environment: 'SVC_RELATIONAL_URL',
  allowed: 'a URL such as postgres://user:password@host:5432/database',
  description: 'The PostgreSQL database that messages are stored in.',
})

export const relationalOptions = Type.Object({
  url,
  statementTimeoutMs: Type.Integer({
    default: 60_000,
    minimum: 1_000,
    maximum: 3_600_000,
    description: 'Milliseconds after which a statement is given up; its batch is written again.',
  }),
  ...sinkOptions.properties,
})
export type RelationalOptions = Static<typeof relationalOptions>

export const relationalReaderOptions = Type.Object({ url, ...readerStoreOptions.properties })
export type RelationalReaderOptions = Static<typeof relationalReaderOptions>
