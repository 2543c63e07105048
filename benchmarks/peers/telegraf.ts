// Telegraf, with the settings in settings/telegraf.conf.

import { join } from 'node:path'
import { telegrafBuild } from '../../test/servers/install/telegraf.ts'
import { type Peer, tableOf } from './peer.ts'

export const telegraf: Peer = {
  name: 'telegraf',
  title: 'Telegraf 1.37.2',
  promise: 'at least once, as long as its buffer in memory is not full',
  missing: telegrafBuild.missing,
  install: telegrafBuild.install,
  // It has the time of a metric in a column of its own, which is a timestamp.
  schema: tableOf('time timestamp'),
  table: 'readings',
  rows: 'SELECT (extract(epoch FROM time) * 1000000)::bigint AS sent_us, temperature, xmin FROM readings',
  command: async ({ broker, topic, group, url }) => ({
    words: [telegrafBuild.program(), '--quiet', '--strict-env-handling', '--config', join(import.meta.dirname, 'settings/telegraf.conf')],
    env: { BROKER: broker, TOPIC: topic, GROUP: group, POSTGRES: `${url}?sslmode=disable&pool_max_conns=4` },
  }),
}
