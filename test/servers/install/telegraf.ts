// Telegraf, built from its Go module with only the plugins that the benchmark of the writer uses.

import { goServer } from '../process/kept-server.ts'

const tags = ['custom', 'inputs.kafka_consumer', 'outputs.postgresql', 'parsers.json']

export const telegrafBuild = goServer('telegraf', {
  module: 'github.com/influxdata/telegraf',
  version: 'v1.37.2',
  main: './cmd/telegraf',
  flags: ['-tags', tags.join(), '-ldflags', '-s -w'],
})
