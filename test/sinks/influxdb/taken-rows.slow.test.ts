// A replay at the same time as the removal of the refused message's rows: whichever comes first, what both count as stored is there.

import { gunzipSync } from 'node:zlib'
import { expect, test } from 'vitest'
import type { Connection } from '../../../sinks/influxdb/connection.ts'
import { ResponseError } from '../../../sinks/influxdb/errors.ts'
import { replayedOffsets } from '../../../sinks/influxdb/replays.ts'
import { maintain } from '../../../sinks/influxdb/schema.ts'
import type { MessageCounts, Rejection, Sink } from '../../../sinks/sink.ts'
import { describeWithInflux } from '../../servers/influx.ts'
import { aroundDelete } from '../around-delete.ts'
import { batchOf, type TestMessage } from '../batches.ts'
import { openStore } from './store.ts'

const signal = new AbortController().signal
const nobody = async (): Promise<void> => undefined
const everything = ['1970-01-01T00:00:00Z', '2200-01-01T00:00:00Z'] as const
const original = { log: 1, partition: 0, offset: 1 }
const nowUs = Date.now() * 1000

/** A row that is always taken, and one that is not while the bucket keeps 60 days. */
const aged: TestMessage = {
  offset: 1,
  records: [0, 100].map(days => ({ value: days, timeUs: nowUs - days * 86_400_000_000 })),
}

describeWithInflux('a replay and a removal at the same time', influx => {
  interface Parts {
    readonly connection: Connection
    /** Refuses the message, and then removes its rows. */
    readonly refusing: Sink
    readonly replays: Sink
    readonly keep: (days: number) => Promise<void>
    /** Has the bucket keep 400 days, and writes the message as a batch of replays, at this offset of their log. */
    readonly replay: (offset?: number) => Promise<readonly MessageCounts[]>
    readonly refuse: (reject?: () => Promise<void>) => Promise<readonly MessageCounts[]>
    readonly rows: () => Promise<number[]>
    readonly noted: () => Promise<number[]>
  }

  async function withStore(work: (parts: Parts) => Promise<void>): Promise<void> {
    const store = await openStore(influx)
    const { connection, options } = store
    try {
      const refusing = await store.open()
      const replays = await store.open({ logName: 'messages.replays.writer-1', logId: 'replays-1' })
      const keep = (retentionDays: number): Promise<void> => maintain(connection, { ...options, retentionDays })
      await keep(60)
      await work({
        connection,
        refusing,
        replays,
        keep,
        replay: async (offset = 0) => {
          await keep(400)
          return await replays.write(replays.encode(batchOf(offset, offset + 1, [{ ...aged, offset, original }])), nobody, signal)
        },
        refuse: (reject = nobody) => refusing.write(refusing.encode(batchOf(0, 2, [aged])), reject, signal),
        rows: async () => (await store.rows()).map(({ index }) => index),
        noted: async () => [...(await replayedOffsets(connection, 1, 0, 0, 10))],
      })
    } finally {
      await store.close()
    }
  }

  const dead = [expect.objectContaining({ stored: 0, deadLettered: 1 })]
  const stored = [expect.objectContaining({ received: 1, stored: 1, deadLettered: 0 })]

  test('rows are there before the look for their note, which comes behind the delete: the replay writes them again', () =>
    withStore(async ({ connection, replay, refuse, rows, noted }) => {
      const [noting, goingOn] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
      const send = connection.write.bind(connection)
      Object.assign(connection, {
        write: async (bucket: string, gzipped: Uint8Array, ended?: AbortSignal) => {
          if (bucket === connection.registryBucket && gunzipSync(gzipped).toString().startsWith('replayed')) {
            noting.resolve()
            await goingOn.promise
          }
          await send(bucket, gzipped, ended)
        },
      })
      let replaying: Promise<readonly MessageCounts[]> | undefined
      const reject = async (): Promise<void> => {
        replaying = replay()
        await noting.promise
      }
      expect(await refuse(reject)).toEqual(dead)
      expect(await rows()).toEqual([])
      goingOn.resolve()
      expect(await replaying).toEqual(stored)
      expect([await rows(), await noted()]).toEqual([[0, 1], [1]])
    }))

  test('a replay begins behind the look for its note, and ends before the delete: the removal writes its rows again', () =>
    withStore(async ({ connection, replay, refuse, rows, noted }) => {
      let replayed: readonly MessageCounts[] | undefined
      aroundDelete(connection, async () => (replayed = await replay()))
      expect(await refuse()).toEqual(dead)
      expect(replayed).toEqual(stored)
      expect([await rows(), await noted()]).toEqual([[0, 1], [1]])
    }))

  test.each([
    ['the answer to the delete', 'remove'],
    ['the second look', 'query'],
    ['what the removal writes again', 'write'],
  ] as const)('where %s fails the next write of the batch does it', (_what, method) =>
    withStore(async ({ connection, refusing, replay, rows }) => {
      const away = new ResponseError('POST', 503, '')
      const real = connection[method].bind(connection) as (...given: unknown[]) => unknown
      let isAway = false
      Object.assign(connection, {
        [method]: (...given: unknown[]) => {
          if (isAway) throw away
          return real(...given)
        },
      })
      aroundDelete(connection, replay, () => {
        // It was done.
        if (method === 'remove') throw away
        isAway = true
      })
      const encoded = refusing.encode(batchOf(0, 2, [aged]))
      await expect(refusing.write(encoded, nobody, signal)).rejects.toBe(away)
      isAway = false
      expect(await rows()).toEqual([1])
      expect(await refusing.write(encoded, nobody, signal)).toEqual(dead)
      expect(await rows()).toEqual([0, 1])
    }),
  )

  test('where the signal aborts behind the delete the rows are written again all the same', () =>
    withStore(async ({ connection, refusing, replay, rows }) => {
      const stopping = new AbortController()
      aroundDelete(connection, replay, () => stopping.abort())
      const encoded = refusing.encode(batchOf(0, 2, [aged]))
      await refusing.write(encoded, nobody, stopping.signal).catch(() => undefined)
      expect(stopping.signal.aborted).toBe(true)
      expect(await rows()).toEqual([0, 1])
    }))

  test('what the server refuses again by then holds nobody up, and what it takes is there', () =>
    withStore(async ({ connection, keep, replay, refuse, rows }) => {
      aroundDelete(connection, async () => {
        await replay()
        await connection.remove(connection.bucket, ...everything, '')
        await keep(60)
      })
      expect(await refuse()).toEqual(dead)
      expect(await rows()).toEqual([0])
    }))

  test.each([
    ['a replay', async (): Promise<void> => undefined],
    [
      'a second replay, which is refused and finds the rows of the first',
      async ({ replay, keep }: Parts): Promise<void> => {
        await replay(7)
        await keep(60)
      },
    ],
  ])('%s, whose rows are gone behind its note and refused by then, is a dead letter once more', (_what, before) =>
    withStore(async parts => {
      const { connection, replays, keep, rows } = parts
      await keep(400)
      await before(parts)
      const send = connection.write.bind(connection)
      let isFirst = true
      Object.assign(connection, {
        write: async (bucket: string, gzipped: Uint8Array, ended?: AbortSignal) => {
          await send(bucket, gzipped, ended)
          if (bucket !== connection.registryBucket || !isFirst) return
          isFirst = false
          await connection.remove(connection.bucket, ...everything, '')
          await keep(60)
        },
      })
      const encoded = replays.encode(batchOf(0, 1, [{ ...aged, offset: 0, original }]))
      const error = await replays.write(encoded, nobody, signal).catch((error: unknown) => error)
      expect(replays.classify(error)).toBe('transient')
      const rejections: Rejection[] = []
      expect(await replays.write(encoded, async some => void rejections.push(...some), signal)).toEqual(dead)
      expect(rejections).toEqual([expect.objectContaining({ message: 0, record: 1, rule: 'beyond-retention' })])
      expect(await rows()).toEqual([0])
    }),
  )
})
