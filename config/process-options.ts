// The options of every long-running process.

import { type Static, Type } from 'typebox'

export const processOptions = Type.Object({
  stopSeconds: Type.Integer({
    default: 5,
    minimum: 5,
    maximum: 600,
    description: 'Seconds that a stop may take; then the process ends with 1, and the next start reads again what was not stored.',
  }),
})

export type ProcessOptions = Static<typeof processOptions>
