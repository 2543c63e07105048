// The section `ingest`: what is taken from devices over HTTP, and how much of it.

import { type Static, Type } from 'typebox'

const quota = { default: 0, minimum: 0, maximum: 10_000_000 }

export const ingestOptions = Type.Object({
  payloadBytesMax: Type.Integer({
    default: 262_144,
    minimum: 1,
    maximum: 1_048_576,
    description: 'Largest payload of a message, in bytes. A larger one is answered 413.',
  }),
  thingMessagesPerMinute: Type.Integer({
    ...quota,
    description:
      'Messages that one thing may publish a minute; one more is answered 429. 0 sets no quota. Each ingest process counts for itself: behind a balancer over three of them a thing may publish three times as many.',
  }),
  channelMessagesPerMinute: Type.Integer({
    ...quota,
    description: 'Messages that may be published to one channel a minute, by all things together; otherwise the same.',
  }),
})

export type IngestOptions = Static<typeof ingestOptions>
