// The options section `reader`: limits of responses and queries.

import { type Static, Type } from 'typebox'

/** The options, with their defaults and descriptions. */
export const readerOptions = Type.Object({
  limitMax: Type.Integer({
    default: 1000,
    minimum: 1,
    maximum: 10_000,
    description: 'Largest page, in records. A larger limit gets 400.',
  }),
  offsetMax: Type.Integer({
    default: 100_000,
    minimum: 0,
    maximum: 10_000_000,
    description: 'Largest offset; a cursor goes further at the same cost for each page.',
  }),
  countMax: Type.Integer({
    default: 10_000,
    minimum: 0,
    maximum: 10_000_000,
    description: 'Totals are exact up to this; beyond it they are a lower bound.',
  }),
  queriesMax: Type.Integer({
    default: 256,
    minimum: 1,
    maximum: 10_000,
    description:
      'Concurrent requests for messages, including exports. One user with all their things gets a quarter of them; when all are in use, the user with the most loses one to a user with fewer.',
  }),
  exportsMax: Type.Integer({
    default: 64,
    minimum: 1,
    maximum: 10_000,
    description: 'Concurrent exports (limit=all), shared in the same way.',
  }),
  idleSeconds: Type.Integer({
    default: 60,
    minimum: 1,
    maximum: 3_600,
    description: 'Seconds after which a response is aborted if the client reads nothing.',
  }),
})

/** An option of each store. */
export const queryTimeoutMs = Type.Integer({
  default: 30_000,
  minimum: 100,
  maximum: 600_000,
  description: 'Milliseconds that one query may take; a longer one gets 422.',
})

/** The options as a reader gets them. */
export type ReaderOptions = Static<typeof readerOptions>
