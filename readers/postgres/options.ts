// Of the section `reader`, for PostgreSQL: how far a total is counted.

import { type Static, Type } from 'typebox'

export const postgresReaderOptions = Type.Object({
  countMax: Type.Integer({
    default: 10_000,
    minimum: 0,
    maximum: 10_000_000,
    description: 'Totals are exact up to this; beyond it the answer holds a lower bound, marked as one.',
  }),
})

export type PostgresReaderOptions = Static<typeof postgresReaderOptions>
