// Sluice: `./sluice writer relational` with its default settings.

import { join } from 'node:path'
import type { Peer } from './peer.ts'

export const sluice: Peer = {
  name: 'sluice',
  title: 'Sluice',
  promise: 'each message once',
  schema: [],
  table: 'formats.fleet',
  rows: `SELECT (payload->>'sent_us')::bigint AS sent_us, (payload->>'temperature')::float8 AS temperature, xmin FROM formats.fleet`,
  command: ({ broker, topic, group, url }) => ({
    words: [process.execPath, join(import.meta.dirname, '../../main.ts'), 'writer', 'relational', '--port', '0'],
    env: {
      SVC_LOG_BROKERS: broker,
      SVC_LOG_TOPIC: topic,
      SVC_LOG_GROUP: group,
      SVC_RELATIONAL_URL: url,
      SVC_INTERNAL_LISTEN: '127.0.0.1:0',
      SVC_LOGGING_LEVEL: 'warn',
    },
  }),
}
