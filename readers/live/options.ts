// The options section `live`: limits of live streams.

import { type Static, Type } from 'typebox'

/** The options, with their defaults and descriptions. */
export const liveOptions = Type.Object({
  streamsMax: Type.Integer({
    default: 1000,
    minimum: 1,
    maximum: 100_000,
    description:
      'Concurrent live streams; further ones get 503. One user with all their things may have at most half of them; further ones get 429.',
  }),
  streamsEachMax: Type.Integer({
    default: 100,
    minimum: 1,
    maximum: 100_000,
    description: 'Concurrent streams of one thing or one user; further ones get 429.',
  }),
  queueBytes: Type.Integer({
    default: 256 * 1024,
    minimum: 16 * 1024,
    maximum: 64 * 1024 * 1024,
    description: 'Bytes that may be buffered for a client. If it reads more slowly, the rest is read from the log later.',
  }),
  heartbeatSeconds: Type.Integer({
    default: 15,
    minimum: 1,
    maximum: 3_600,
    description:
      'Seconds between heartbeats, which keep proxies from closing a quiet stream. A client that reads nothing for this long is disconnected.',
  }),
})
/** The options as live streams get them. */
export type LiveOptions = Static<typeof liveOptions>
