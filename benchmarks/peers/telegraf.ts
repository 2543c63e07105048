// Telegraf, with the settings in settings/telegraf.conf, twice: with four connections, where its output counts metrics as written once a connection has taken
// them over, and with one, where it waits for the commit.

import { join } from 'node:path'
import { telegrafBuild } from '../../test/servers/install/telegraf.ts'
import { type Peer, tableOf } from './peer.ts'

const telegrafWith = (connections: number, name: string, promise: string): Peer => ({
  name,
  title: `Telegraf 1.37.2, ${connections} ${connections === 1 ? 'connection' : 'connections'}`,
  promise,
  async install() {
    const missing = telegrafBuild.missing()
    if (missing !== undefined) throw new Error(missing)
    await telegrafBuild.install()
  },
  // The time of a metric is a timestamp in a column of this name.
  schema: tableOf('time', 'timestamp'),
  table: 'readings',
  rows: 'SELECT (extract(epoch FROM time) * 1000000)::bigint AS sent_us, temperature, xmin FROM readings',
  command: ({ broker, topic, group, url }) => ({
    words: [telegrafBuild.program(), '--quiet', '--strict-env-handling', '--config', join(import.meta.dirname, 'settings/telegraf.conf')],
    env: { BROKER: broker, TOPIC: topic, GROUP: group, POSTGRES: `${url}?sslmode=disable&pool_max_conns=${connections}` },
  }),
})

export const telegraf: readonly Peer[] = [
  telegrafWith(4, 'telegraf', 'none: it commits to Kafka what it has not stored yet'),
  telegrafWith(1, 'telegraf-one', 'at least once, as long as its buffer in memory is not full'),
]
