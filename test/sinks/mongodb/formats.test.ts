// Formats that get no collection, without a server: what it costs to find out, and how long it is remembered.

import { expect, test } from 'vitest'
import type { Connection } from '../../../sinks/mongodb/connection.ts'
import { openFormats } from '../../../sinks/mongodb/formats.ts'
import { optionsOf } from './store.ts'

const { signal } = new AbortController()
const wanted = (format: string, ...channels: string[]) => ({ format, channels: new Set(channels) })
const options = optionsOf('mongodb://nowhere/store', { formatsPerChannelMax: 3 })

/** The store has three formats, all brought by one channel. */
function fullStore() {
  const entries = [1, 2, 3].map(number => ({ _id: `f${number}`, number, collection: `f${number}`, channel: 'full' }))
  const found = { registryReads: 0 }
  const find = () => {
    found.registryReads++
    return { toArray: async () => [...entries] }
  }
  const connection = { database: { collection: () => ({ find }) }, command: async () => ({ ok: 1 }) }
  return { found, connection: connection as unknown as Connection }
}

test('a format beyond the cap has the registry read once, and again after some seconds', async () => {
  const { found, connection } = fullStore()
  let nowMs = 0
  const formats = openFormats(connection, options, () => nowMs)
  const resolve = async () => {
    const { names, refused } = await formats.resolve([wanted('f1', 'full'), wanted('new', 'full')], signal)
    return [[...names.keys()], [...refused].map(([format, { rule }]) => `${format} ${rule}`), found.registryReads]
  }
  expect(await resolve()).toEqual([['f1'], ['new format-limit'], 1])
  nowMs = 4_999
  expect(await resolve()).toEqual([['f1'], ['new format-limit'], 1])
  nowMs = 5_000
  expect(await resolve()).toEqual([['f1'], ['new format-limit'], 2])
  formats.forget()
  expect(await resolve()).toEqual([['f1'], ['new format-limit'], 3])
})

test('a channel that may bring it gets the format that another was refused a moment ago', async () => {
  const { connection } = fullStore()
  const formats = openFormats(connection, options, () => 0)
  expect((await formats.resolve([wanted('new', 'full')], signal)).refused.size).toBe(1)
  const { names } = await formats.resolve([wanted('new', 'full', 'other')], signal)
  expect([...names]).toEqual([['new', 'new']])
})
