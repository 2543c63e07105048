// The section `ingest`: what is taken from devices over HTTP.

import { type Static, Type } from 'typebox'

export const ingestOptions = Type.Object({
  payloadBytesMax: Type.Integer({
    default: 262_144,
    minimum: 1,
    maximum: 1_048_576,
    description: 'Largest payload of a message, in bytes. A larger one is answered 413.',
  }),
})

export type IngestOptions = Static<typeof ingestOptions>
