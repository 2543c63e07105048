// A replay at the same time as the removal of the refused message's rows: whichever comes first, what both count as stored is there.

import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { type Connection, openConnection } from '../../../sinks/mongodb/connection.ts'
import { openSink } from '../../../sinks/mongodb/sink.ts'
import type { MessageCounts, Sink } from '../../../sinks/sink.ts'
import { counts } from '../../conformance/sink/fixture.ts'
import { describeWithMongo } from '../../servers/mongo.ts'
import { aroundDelete } from '../around-delete.ts'
import { batchOf } from '../batches.ts'
import { commonPoisons, identity, type MongoStore, openStore, optionsOf, withTakenUpdateTime } from './store.ts'

const { signal } = new AbortController()
const nobody = async (): Promise<void> => undefined
const original = { log: 1, partition: 0, offset: 0 }

class Away extends Error {
  override readonly name = 'MongoNetworkError'
}

function suite(urlOf: () => string): void {
  let store: MongoStore
  let connection: Connection
  /** Refuses the message, and then removes its rows. */
  let refusing: Sink
  let replays: Sink
  const closings: (() => Promise<void>)[] = []

  beforeEach(async () => {
    store = await openStore({ url: urlOf(), directUrl: urlOf(), poisons: commonPoisons })
    const options = optionsOf(urlOf())
    connection = await openConnection(options, 'test')
    refusing = await openSink({ connection, options, ...identity })
    const ofReplays = await openConnection(options, 'test')
    replays = await openSink({ connection: ofReplays, options, ...identity, logName: 'messages.replays.writer-1', logId: 'replays-1' })
    closings.push(
      () => connection.close(),
      () => ofReplays.close(),
      () => store.close(),
    )
    const note = ofReplays.command.bind(ofReplays)
    noting = Promise.withResolvers<void>()
    goingOn = Promise.withResolvers<void>()
    Object.assign(ofReplays, {
      command: async (...given: Parameters<Connection['command']>) => {
        if (given[0]['insert'] === 'sluice.replayed') {
          noting.resolve()
          await goingOn.promise
        }
        return await note(...given)
      },
    })
  })
  afterEach(async () => {
    for (const close of closings.splice(0)) await close()
  })

  /** A replay is about to be noted, and waits until it may. */
  let noting: PromiseWithResolvers<void>
  let goingOn: PromiseWithResolvers<void>

  /** What is refused is taken from now on, as if an operator had mended it; and the message is replayed. */
  async function replay(): Promise<readonly MessageCounts[]> {
    await store.database.collection('messages').deleteOne({ _id: 'sentinel' as never })
    const encoded = replays.encode(batchOf(0, 1, [{ ...withTakenUpdateTime(0), original }]))
    // As the pipeline does it, where it is transient.
    return await replays.write(encoded, nobody, signal).catch((error: unknown) => {
      if (replays.classify(error) !== 'transient') throw error
      return replays.write(encoded, nobody, signal)
    })
  }

  const encodeRefused = () => refusing.encode(batchOf(0, 1, [withTakenUpdateTime(0)]))
  const indexes = async (): Promise<number[]> => (await store.rows()).map(({ index }) => index)
  const noted = () => store.database.collection('sluice.replayed').countDocuments()
  const dead = [counts({ received: 1, deadLettered: 1 })]

  test('rows are there before the look for their note, which comes behind the delete: the replay writes them again', async () => {
    let replaying: Promise<readonly MessageCounts[]> | undefined
    const reject = async (): Promise<void> => {
      replaying = replay()
      await noting.promise
    }
    expect(await refusing.write(encodeRefused(), reject, signal)).toEqual(dead)
    expect(await indexes()).toEqual([])
    goingOn.resolve()
    expect(await replaying).toEqual([counts({ received: 1, stored: 1 })])
    expect([await indexes(), await noted()]).toEqual([[0, 1], 1])
  })

  test('a replay begins behind the look for its note, and ends before the delete: the removal writes its rows again', async () => {
    goingOn.resolve()
    let replayed: readonly MessageCounts[] | undefined
    aroundDelete(connection, async () => (replayed = await replay()))
    expect(await refusing.write(encodeRefused(), nobody, signal)).toEqual(dead)
    expect(replayed).toEqual([counts({ received: 1, stored: 1 })])
    expect([await indexes(), await noted()]).toEqual([[0, 1], 1])
  })

  test('where that fails behind the delete the next write of the batch does it', async () => {
    goingOn.resolve()
    aroundDelete(connection, replay, () => {
      throw new Away('the answer to the delete')
    })
    const encoded = encodeRefused()
    await expect(refusing.write(encoded, nobody, signal)).rejects.toThrow('the answer to the delete')
    expect(await indexes()).toEqual([])
    expect(await refusing.write(encoded, nobody, signal)).toEqual(dead)
    expect(await indexes()).toEqual([0, 1])
  })

  test('where the signal aborts behind the delete the rows are written again all the same', async () => {
    goingOn.resolve()
    const stopping = new AbortController()
    aroundDelete(connection, replay, () => stopping.abort())
    await refusing.write(encodeRefused(), nobody, stopping.signal).catch(() => undefined)
    expect(stopping.signal.aborted).toBe(true)
    expect(await indexes()).toEqual([0, 1])
  })

  test('what the server refuses again by then holds nobody up, and what it takes is there', async () => {
    goingOn.resolve()
    aroundDelete(connection, async () => {
      await replay()
      await store.database.collection<object>('messages').deleteMany({})
      await store.database.collection('messages').insertOne({ _id: 'sentinel' as never, updateTime: 666.5 })
    })
    expect(await refusing.write(encodeRefused(), nobody, signal)).toEqual(dead)
    expect(await indexes()).toEqual([0])
  })
}

describeWithMongo('a replay and a removal at the same time on FerretDB', mongo => suite(() => `${mongo.url}taken_rows`))

const real = process.env['MONGODB_URL']
if (real !== undefined) {
  describe('a replay and a removal at the same time on the server of MONGODB_URL', () => {
    const url = new URL(real)
    url.pathname = '/sluice_taken_rows'
    suite(() => url.href)
  })
}
