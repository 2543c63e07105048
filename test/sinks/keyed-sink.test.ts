// What the sink of a store without transactions does around the inserts of its store.

import { getEventListeners } from 'node:events'
import { expect, test } from 'vitest'
import { openKeyedReplay } from '../../sinks/keyed-replay.ts'
import { type KeyedBatch, type KeyedStore, keyedBatch, openKeyedSink } from '../../sinks/keyed-sink.ts'
import { packedPosition } from '../../sinks/sink.ts'
import { batchOf, plain, plainBatch } from './batches.ts'

const never = new AbortController().signal
const keep = async (): Promise<void> => undefined
const away = new Error('away')

function sinkOver(some: Partial<KeyedStore<KeyedBatch>>) {
  const store: KeyedStore<KeyedBatch> = {
    encode: keyedBatch,
    prepare: async () => undefined,
    insert: async () => undefined,
    async failed(error) {
      throw error
    },
    classify: () => 'systemic',
    ...some,
  }
  return { store, sink: openKeyedSink(store, { logNumbers: [1], takeNumbers: keep }) }
}

test('a replay records what is stored, not what is refused, empty, filtered or undecodable, and leaves no row of a refused message', async () => {
  const { store } = sinkOver({
    async insert({ rejected }) {
      rejected.set(1, { message: 1, rule: 'store-refused', reason: 'no', partial: true })
      return undefined
    },
  })
  const steps: unknown[] = []
  const replays = {
    noteReplays: async (positions: ReadonlySet<bigint>) => void steps.push(['note', ...positions]),
    deleteRows: async (position: bigint, channel: string) => void steps.push(['delete', position, channel]),
  }
  const messages = [
    plain(100),
    plain(101),
    { offset: 102 },
    { offset: 103, outcome: 'filtered' as const },
    { offset: 104, outcome: 'deadLettered' as const },
  ]
  const batch = batchOf(100, 105, messages, 7)
  batch.ranges.length = 0
  const { refused } = await openKeyedReplay(store, replays, 1).write(batch, new Set([0]), never)
  expect([...refused.keys()]).toEqual([1])
  expect(steps).toEqual([
    ['delete', packedPosition(1, 7, 100), 'channel-1'],
    ['delete', packedPosition(1, 7, 101), 'channel-1'],
    ['note', packedPosition(1, 7, 100)],
  ])
})

test('if the store has handled a failure the attempt is repeated at once, from the beginning', async () => {
  const steps: string[] = []
  const { sink } = sinkOver({
    prepare: async () => void steps.push('prepare'),
    async insert() {
      steps.push('insert')
      if (steps.length === 2) throw away
      return undefined
    },
    failed: async (error, attempt) => void steps.push(`failed ${attempt}: ${(error as Error).message}`),
  })
  await sink.write(sink.encode(plainBatch(0, 1)), keep, never)
  expect(steps).toEqual(['prepare', 'insert', 'failed 1: away', 'prepare', 'insert'])
})

test('after an abort its reason is thrown, whatever errors the requests had, and the store forgets nothing', async () => {
  const stopping = new AbortController()
  const { sink } = sinkOver({
    async insert(_encoded, _prepared, signal) {
      stopping.abort(new Error('revoked'))
      expect(signal.aborted).toBe(true)
      throw away
    },
    failed: () => Promise.reject(new Error('it was asked')),
  })
  await expect(sink.write(sink.encode(plainBatch(0, 1)), keep, stopping.signal)).rejects.toThrow('revoked')
  expect(getEventListeners(stopping.signal, 'abort')).toEqual([])
})

test('a write after the close throws', async () => {
  const { sink } = sinkOver({})
  const encoded = sink.encode(plainBatch(0, 1))
  await sink.close()
  await expect(sink.write(encoded, keep, never)).rejects.toThrow('the sink is closed')
})
