// The section `live`: how many streams there may be, and what one may hold.

import { type Static, Type } from 'typebox'

export const liveOptions = Type.Object({
  streamsMax: Type.Integer({
    default: 1000,
    minimum: 1,
    maximum: 100_000,
    description:
      'Live streams at the same time; one more is answered 503. One user with all their things has half of them at most; one more of theirs is answered 429.',
  }),
  streamsEachMax: Type.Integer({
    default: 100,
    minimum: 1,
    maximum: 100_000,
    description: 'Of these, streams of one thing, or of one user; one more is answered 429.',
  }),
  queueBytes: Type.Integer({
    default: 256 * 1024,
    minimum: 16 * 1024,
    maximum: 64 * 1024 * 1024,
    description: 'Bytes that may wait for a client. One that reads more slowly is given the rest from the log as it reads.',
  }),
  heartbeatSeconds: Type.Integer({
    default: 15,
    minimum: 1,
    maximum: 3_600,
    description:
      'Seconds between heartbeats, which keep proxies from closing a quiet stream. A client that takes nothing for as long is cut off.',
  }),
})
export type LiveOptions = Static<typeof liveOptions>
