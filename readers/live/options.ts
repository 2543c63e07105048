// The options section `live`: limits of live streams.

import { type Static, Type } from 'typebox'

/** The options, with their defaults and descriptions. */
export const liveOptions = Type.Object({
  streamsMax: Type.Integer({
    default: 1000,
    minimum: 1,
    maximum: 100_000,
    description:
      'Concurrent live streams. One user with all their things gets a quarter of them; when all are in use, the user with the most loses one to a user with fewer.',
  }),
  queueBytes: Type.Integer({
    default: 256 * 1024,
    minimum: 16 * 1024,
    maximum: 64 * 1024 * 1024,
    description: 'Bytes that are buffered for a client; beyond it messages are read from the log again.',
  }),
  heartbeatSeconds: Type.Integer({
    default: 15,
    minimum: 1,
    maximum: 3_600,
    description: 'Seconds between heartbeats. A client that reads nothing for this long is disconnected.',
  }),
})
/** The options as live streams get them. */
export type LiveOptions = Static<typeof liveOptions>
