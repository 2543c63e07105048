// Telegraf, with the settings in settings/telegraf.conf.

import { join } from 'node:path'
import { telegrafBuild } from '../../test/servers/install/telegraf.ts'
import { type Peer, tableOf } from './peer.ts'

export const telegraf: Peer = {
  name: 'telegraf',
  title: 'Telegraf 1.37.2',
  promise: 'at least once, as long as its buffer in memory is not full',
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
    env: { BROKER: broker, TOPIC: topic, GROUP: group, POSTGRES: `${url}?sslmode=disable&pool_max_conns=4` },
  }),
}
