// Formats that are refused, without a server: what it costs to find out, and how long it is remembered.

import { expect, test } from 'vitest'
import { openFormats } from '../../../sinks/formats.ts'
import type { Connection } from '../../../sinks/influxdb/connection.ts'
import { formatAdder } from '../../../sinks/influxdb/registry.ts'
import { defaults } from './store.ts'

const { signal } = new AbortController()
const wanted = (format: string, ...channels: string[]) => ({ format, channels: new Set(channels) })

/** Its registry is empty, and stays so. */
function emptyStore() {
  const found = { registryReads: 0 }
  async function* query(): AsyncGenerator<never[]> {
    found.registryReads++
    yield []
  }
  const connection = { registryBucket: 'registry', query, write: async () => undefined }
  return { found, connection: connection as unknown as Connection }
}

test('a format over the limit causes one read of the registry, and another after some seconds', async () => {
  const { found, connection } = emptyStore()
  let nowMs = 0
  const formats = openFormats(formatAdder(connection, { ...defaults, formatsPerChannelMax: 1 }), () => nowMs)
  const admit = async () => {
    const refused = await formats.resolve([wanted('first', 'full'), wanted('second', 'full'), wanted('half \ud800', 'full')], signal)
    return [[...refused].map(([format, { rule }]) => `${format} ${rule}`).sort(), found.registryReads]
  }
  const refused = ['half \ud800 store-refused', 'second format-limit']
  expect(await admit()).toEqual([refused, 1])
  nowMs = 4_999
  expect(await admit()).toEqual([refused, 1])
  nowMs = 5_000
  // The channel may bring one, and the registry says that it has brought none.
  expect(await admit()).toEqual([['half \ud800 store-refused'], 2])
})

test('a channel that may add a format gets it although another was refused a moment ago', async () => {
  const { connection } = emptyStore()
  const formats = openFormats(formatAdder(connection, { ...defaults, formatsPerChannelMax: 1 }), () => 0)
  expect((await formats.resolve([wanted('first', 'full'), wanted('second', 'full')], signal)).size).toBe(1)
  expect((await formats.resolve([wanted('second', 'full', 'other')], signal)).size).toBe(0)
})
