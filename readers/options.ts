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
  queriesMax: Type.Integer({
    default: 256,
    minimum: 1,
    maximum: 10_000,
    description: 'Queries under way at the same time, exports among them; one more is answered 503.',
  }),
  queriesEachMax: Type.Integer({
    default: 16,
    minimum: 1,
    maximum: 10_000,
    description: 'Of these, queries of one user with all their tokens and things; one more is answered 429.',
  }),
  exportsMax: Type.Integer({
    default: 64,
    minimum: 1,
    maximum: 10_000,
    description: 'Exports (limit=all) at the same time; one more is answered 503.',
  }),
  exportsEachMax: Type.Integer({
    default: 4,
    minimum: 1,
    maximum: 10_000,
    description: 'Of these, exports of one thing, or of one user; one more is answered 429.',
  }),
  idleSeconds: Type.Integer({
    default: 60,
    minimum: 1,
    maximum: 3_600,
    description: 'Seconds after which an answer is broken off whose client takes nothing of it.',
  }),
})

export type ReaderOptions = Static<typeof readerOptions>
