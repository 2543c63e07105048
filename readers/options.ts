// The section `reader`: how much one page holds.

import { type Static, Type } from 'typebox'

export const readerOptions = Type.Object({
  limitMax: Type.Integer({
    default: 1000,
    minimum: 1,
    maximum: 10_000,
    description: 'Largest page, in records. A larger limit is answered 400.',
  }),
})

export type ReaderOptions = Static<typeof readerOptions>
