// A write that nobody waits for any more ends soon, also while the server is silent; and one without an answer is given up.

import { getEventListeners } from 'node:events'
import type { MongoClient } from 'mongodb'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { type Connection, openConnection } from '../../../sinks/mongodb/connection.ts'
import type { EncodedBatch } from '../../../sinks/mongodb/encode.ts'
import type { SinkOptions } from '../../../sinks/mongodb/options.ts'
import { classify, openSink } from '../../../sinks/mongodb/sink.ts'
import type { Sink } from '../../../sinks/sink.ts'
import { withNumbers } from '../../conformance/sink/fixture.ts'
import { describeWithOwnMongo } from '../../servers/mongo.ts'
import { openProxy, type Proxy } from '../../servers/process/proxy.ts'
import { batchOf, plainBatch, type TestMessage } from '../batches.ts'
import { identity, openOperator, optionsOf, withTakenUpdateTime } from './store.ts'

const { signal: never } = new AbortController()
const nobody = async (): Promise<void> => undefined
/** Where a time-out is to come: short, and long enough that a busy machine opens the sink within it. */
const hurried = { requestTimeoutMs: 5_000, connectTimeoutMs: 5_000 }

describeWithOwnMongo('an aborted write', mongo => {
  let proxy: Proxy
  let operator: MongoClient
  let url: string
  let databases = 0
  const connections: Connection[] = []

  beforeEach(async () => {
    proxy = await openProxy({ port: Number(new URL(mongo.url).port) })
    const name = `giving_up_${databases++}`
    url = `mongodb://127.0.0.1:${proxy.port}/${name}`
    operator = openOperator(`${mongo.url}${name}`)
  })
  afterEach(async () => {
    for (const connection of connections.splice(0)) await connection.close()
    await operator.close()
    await proxy.close()
  })

  /** Nothing but an abort ends a request of it within a test. */
  async function open(
    some: Partial<SinkOptions> = { requestTimeoutMs: 3_600_000, connectTimeoutMs: 600_000 },
  ): Promise<Sink<EncodedBatch>> {
    const options = optionsOf(url, some)
    const connection = await openConnection(options, 'test')
    connections.push(connection)
    return await withNumbers(openSink({ connection, options, logs: [identity] }))
  }
  const stored = (): Promise<number> => operator.db().collection('messages').countDocuments()
  const thrownBy = (work: Promise<unknown>): Promise<unknown> =>
    work.then(
      () => 'written',
      (error: unknown) => error,
    )

  const document: TestMessage = { offset: 0, documents: [{ format: 'engine', payload: {} }] }

  test.each([
    ['records', plainBatch(0, 5_000)],
    ['a document of a new format', batchOf(0, 1, [document])],
  ])('%s: ends while the server is silent, and the same batch is stored afterwards', async (_what, batch) => {
    const sink = await open()
    const encoded = sink.encode(batch)
    proxy.halfOpen()
    const controller = new AbortController()
    const writing = thrownBy(sink.write(encoded, nobody, controller.signal))
    const reason = new Error('revoked')
    setImmediate(() => controller.abort(reason))
    expect(await writing).toBe(reason)
    expect(getEventListeners(controller.signal, 'abort')).toEqual([])
    await proxy.heal()
    const [counts] = await sink.write(encoded, nobody, never)
    expect(counts!.stored + counts!.duplicate).toBe(batch.messages.length)
    await sink.close()
  })

  test('sends nothing if it is aborted before it starts', async () => {
    const sink = await open()
    const passed = proxy.passedBytes
    const reason = new Error('revoked')
    expect(await thrownBy(sink.write(sink.encode(plainBatch(0, 10)), nobody, AbortSignal.abort(reason)))).toBe(reason)
    expect(proxy.passedBytes).toBe(passed)
    expect(await stored()).toBe(0)
  })

  test('sends no further rows if it is aborted in the middle', async () => {
    const sink = await open({ requestTimeoutMs: 3_600_000, connectTimeoutMs: 600_000, writesInFlight: 1 })
    const controller = new AbortController()
    const cut = proxy.cutAfter(1_500_000)
    const writing = thrownBy(sink.write(sink.encode(plainBatch(0, 20_000)), nobody, controller.signal))
    void cut.then(() => controller.abort(new Error('revoked')))
    expect(await writing).toBeInstanceOf(Error)
    const found = await stored()
    expect(found).toBeLessThan(20_000)
    await sink.close()
    expect(await stored()).toBe(found)
  })

  test('ends while its dead letters are not acknowledged, and requests them again', async () => {
    const sink = await open()
    await operator.db().createIndex('messages', { updateTime: 1 }, { unique: true, sparse: true })
    await operator.db().collection('messages').insertOne({ updateTime: 666.5 })
    const encoded = sink.encode(batchOf(0, 1, [withTakenUpdateTime(0)]))
    const controller = new AbortController()
    const reason = new Error('revoked')
    const hangs = (): Promise<void> => {
      controller.abort(reason)
      return new Promise(() => undefined)
    }
    expect(await thrownBy(sink.write(encoded, hangs, controller.signal))).toBe(reason)
    const asked: number[] = []
    await sink.write(encoded, async some => void asked.push(...some.map(({ message }) => message)), never)
    expect(asked).toEqual([0])
    expect(await stored()).toBe(2)
  })

  test('a server that is silent for longer than the time-out is transient', async () => {
    const sink = await open(hurried)
    const encoded = sink.encode(plainBatch(0, 10))
    proxy.halfOpen()
    const thrown = await thrownBy(sink.write(encoded, nobody, never))
    expect([classify(thrown), String(thrown)]).toEqual(['transient', expect.stringMatching(/timed out/)])
    await proxy.heal()
    await expect
      .poll(() =>
        sink.write(encoded, nobody, never).then(
          () => stored(),
          () => -1,
        ),
      )
      .toBe(10)
  })

  test('a server that stops reading in the middle of a batch is transient', async () => {
    const sink = await open(hurried)
    // More than the buffers on the way hold, so that the request is never sent as a whole.
    const encoded = sink.encode(batchOf(0, 1, [{ offset: 0, records: [{ stringValue: 'x'.repeat(15 * 1024 * 1024) }] }]))
    proxy.halfOpen()
    const thrown = await thrownBy(sink.write(encoded, nobody, never))
    expect([classify(thrown), String(thrown)]).toEqual(['transient', expect.stringMatching(/MongoDB has not answered for 6000 ms/)])
    await proxy.heal()
    await expect
      .poll(() =>
        sink.write(sink.encode(plainBatch(0, 10)), nobody, never).then(
          () => stored(),
          () => -1,
        ),
      )
      .toBe(10)
  })

  test('a paused server, and one that is down, are transient', async () => {
    const sink = await open(hurried)
    const encoded = sink.encode(plainBatch(0, 10))
    mongo.pause()
    try {
      expect(classify(await thrownBy(sink.write(encoded, nobody, never)))).toBe('transient')
    } finally {
      mongo.resume()
    }
    await mongo.kill()
    expect(classify(await thrownBy(sink.write(encoded, nobody, never)))).toBe('transient')
    expect(classify(await thrownBy(open(hurried)))).toBe('transient')
    await mongo.restart()
    await expect
      .poll(() =>
        sink.write(encoded, nobody, never).then(
          () => stored(),
          () => -1,
        ),
      )
      .toBe(10)
  })
})
