// A replay at the same time as the removal of the refused message's rows: whichever comes first, what both count as stored is there.

import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest'
import { type Connection, openConnection } from '../../../sinks/cassandra/connection.ts'
import type { SinkOptions } from '../../../sinks/cassandra/options.ts'
import { openSink } from '../../../sinks/cassandra/sink.ts'
import type { MessageCounts, Sink } from '../../../sinks/sink.ts'
import { describeWithCassandra } from '../../servers/cassandra.ts'
import { batchOf } from '../batches.ts'
import { dropKeyspace, emptyStore, identity, optionsFor, rowsOf } from './store.ts'

const never = new AbortController().signal
const nobody = async (): Promise<void> => undefined
const original = { log: 1, partition: 0, offset: 0 }
/** Its second row is refused while an index of an operator's has no room for it. */
const message = { offset: 0, records: [{ value: 1 }, { stringValue: 'x'.repeat(70_000) }] }
const dead = [expect.objectContaining({ stored: 0, deadLettered: 1 })]
const stored = [expect.objectContaining({ received: 1, stored: 1, deadLettered: 0 })]

type Client = Awaited<ReturnType<Connection['client']>>

describeWithCassandra('a replay and a removal at the same time', cassandra => {
  let options: SinkOptions
  let operator: Connection
  /** Refuses the message, and then removes its rows. */
  let refusing: { readonly sink: Sink; readonly client: Client }
  let replays: { readonly sink: Sink; readonly client: Client }
  const closings: (() => Promise<unknown>)[] = []

  beforeAll(async () => {
    options = optionsFor(cassandra.contactPoint)
    operator = await openConnection(options, 'operator')
  })
  beforeEach(async () => {
    await emptyStore(operator)
    refusing = await open('messages')
    replays = await open('messages.replays.writer-1')
    await refuseTexts()
  })
  afterEach(async () => {
    for (const close of closings.splice(0).toReversed()) await close()
    await takeTexts()
  })
  afterAll(async () => {
    await dropKeyspace(operator)
    await operator.close()
  })

  async function open(logName: string) {
    const connection = await openConnection(options, 'writer')
    const sink = await openSink({ connection, options, ...identity, logName })
    closings.push(
      () => connection.close(),
      () => sink.close(),
    )
    return { sink, client: await connection.client() }
  }

  const refuseTexts = () => operator.change(`CREATE INDEX texts ON ${operator.table('messages')} (string_value)`)
  const takeTexts = () => operator.change(`DROP INDEX IF EXISTS ${operator.table('texts')}`)
  const indexes = async (): Promise<number[]> => (await rowsOf(operator)).map(({ index }) => index)
  const noted = async (): Promise<number> => (await operator.query(`SELECT position FROM ${operator.table('sluice_replayed')}`)).length

  /** As the pipeline does it, where it is transient. */
  async function replay(): Promise<readonly MessageCounts[]> {
    await takeTexts()
    const { sink } = replays
    const encoded = sink.encode(batchOf(0, 1, [{ ...message, original }]))
    for (let times = 1; ; times++) {
      try {
        return await sink.write(encoded, nobody, never)
      } catch (error) {
        if (sink.classify(error) !== 'transient' || times === 5) throw error
      }
    }
  }

  /** Calls `first` before one of these statements is sent: the first, or the one of this number. */
  function before(client: Client, isIt: RegExp, first: () => Promise<unknown>, nth = 1): void {
    const execute = client.execute.bind(client) as (...given: unknown[]) => Promise<unknown>
    let times = 0
    Object.assign(client, {
      execute: async (query: string, ...given: unknown[]) => {
        if (isIt.test(query) && ++times === nth) await first()
        return await execute(query, ...given)
      },
    })
  }

  const noteStatement = /^INSERT INTO .*sluice_replayed/
  const lookStatement = /^SELECT position FROM .*sluice_replayed/
  const deleteStatement = /^DELETE/
  const encodeRefused = () => refusing.sink.encode(batchOf(0, 1, [message]))

  test('rows are there before the look for their note, which comes behind the delete: the replay writes them again', async () => {
    const [noting, goingOn] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    before(replays.client, noteStatement, () => {
      noting.resolve()
      return goingOn.promise
    })
    let replaying: Promise<readonly MessageCounts[]> | undefined
    const reject = async (): Promise<void> => {
      replaying = replay()
      await noting.promise
    }
    expect(await refusing.sink.write(encodeRefused(), reject, never)).toEqual(dead)
    expect(await indexes()).toEqual([])
    goingOn.resolve()
    expect(await replaying).toEqual(stored)
    expect([await indexes(), await noted()]).toEqual([[0, 1], 1])
  })

  test('a replay begins behind the look for its note, and ends before the delete: the removal writes its rows again', async () => {
    let replayed: readonly MessageCounts[] | undefined
    before(refusing.client, deleteStatement, async () => (replayed = await replay()))
    expect(await refusing.sink.write(encodeRefused(), nobody, never)).toEqual(dead)
    expect(replayed).toEqual(stored)
    expect([await indexes(), await noted()]).toEqual([[0, 1], 1])
  })

  test('where that fails behind the delete the next write of the batch does it', async () => {
    before(refusing.client, deleteStatement, replay)
    const away = Object.assign(new Error('the second look'), { name: 'OperationTimedOutError' })
    before(refusing.client, lookStatement, () => Promise.reject(away), 2)
    const encoded = encodeRefused()
    await expect(refusing.sink.write(encoded, nobody, never)).rejects.toThrow('the second look')
    expect(await indexes()).toEqual([])
    await expect.poll(() => refusing.sink.write(encoded, nobody, never).catch(() => 'failed')).toEqual(dead)
    expect(await indexes()).toEqual([0, 1])
  })

  test('where the signal aborts behind the deletes the rows are written again all the same', async () => {
    const stopping = new AbortController()
    before(refusing.client, deleteStatement, replay)
    before(refusing.client, lookStatement, async () => stopping.abort(), 2)
    await refusing.sink.write(encodeRefused(), nobody, stopping.signal).catch(() => undefined)
    expect(stopping.signal.aborted).toBe(true)
    expect(await indexes()).toEqual([0, 1])
  })

  test('what the server refuses again by then holds nobody up', async () => {
    before(refusing.client, deleteStatement, async () => {
      await replay()
      await operator.query(`TRUNCATE ${operator.table('messages')}`)
      await refuseTexts()
    })
    expect(await refusing.sink.write(encodeRefused(), nobody, never)).toEqual(dead)
    expect([await indexes(), await noted()]).toEqual([[0], 1])
  })

  // The last one: what was written ahead of the clock is not emptied before another.
  test('rows of a replay on a machine whose clock is ahead are written again as of later than they were deleted', async () => {
    before(refusing.client, deleteStatement, async () => {
      const aheadMs = Date.now() + 60_000
      const clock = vi.spyOn(Date, 'now').mockReturnValue(aheadMs)
      await replay()
      clock.mockRestore()
    })
    expect(await refusing.sink.write(encodeRefused(), nobody, never)).toEqual(dead)
    expect(await indexes()).toEqual([0, 1])
  })
})
