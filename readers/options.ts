// The section `reader`: how much one answer may be, and may cost.

import { type Static, Type } from 'typebox'

export const readerOptions = Type.Object({
  limitMax: Type.Integer({
    default: 1000,
    minimum: 1,
    maximum: 10_000,
    description: 'Largest page, in records. A larger limit is answered 400.',
  }),
  offsetMax: Type.Integer({
    default: 100_000,
    minimum: 0,
    maximum: 10_000_000,
    description:
      'Largest offset. The store passes over each record; whoever goes further pages with a cursor, which costs the same at any depth.',
  }),
  countMax: Type.Integer({
    default: 10_000,
    minimum: 0,
    maximum: 10_000_000,
    description: 'Totals are exact up to this; beyond it the answer holds a lower bound, marked as one.',
  }),
})

export type ReaderOptions = Static<typeof readerOptions>
