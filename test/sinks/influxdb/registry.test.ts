// Which formats InfluxDB refuses to register, without a server.

import { expect, test } from 'vitest'
import type { WantedFormat } from '../../../sinks/formats.ts'
import type { Connection } from '../../../sinks/influxdb/connection.ts'
import { formatAdder } from '../../../sinks/influxdb/registry.ts'
import { defaults } from './store.ts'

const { signal } = new AbortController()
const wanted = (format: string): WantedFormat => ({ format, channels: new Set(['one']) })

test('a format that InfluxDB cannot hold as text is refused, and the one beside it is registered', async () => {
  const lines: unknown[] = []
  async function* query(): AsyncGenerator<never[]> {
    yield []
  }
  const connection = { registryBucket: 'registry', query, write: async (_bucket: string, body: unknown) => void lines.push(body) }
  const add = formatAdder(connection as unknown as Connection, defaults)
  const refused = await add([wanted('half \ud800'), wanted('nul \0'), wanted('whole')], signal)
  expect([...refused].map(([format, { rule }]) => [format, rule])).toEqual([
    ['half \ud800', 'store-refused'],
    ['nul \0', 'store-refused'],
  ])
  expect(lines).toHaveLength(1)
})
