// Numbers of logs: taken with the first message to store or to dead-letter, for each writer, and none for a log of which everything is filtered.

import { expect, test } from 'vitest'
import { logPartition } from '../../../transformers/log-partition.ts'
import { RecordBatch } from '../../../transformers/record-batch.ts'
import { append, batchOf, plain, plainBatch } from '../../sinks/batches.ts'
import { type Bench, signal } from './bench.ts'
import { counts, type SinkIdentity } from './fixture.ts'

const json = 'application/json'
const senml = 'application/senml+json'

export function logsSuite(bench: Bench, transactional: boolean): void {
  /** Replaces the sink of the bench, as after a restart of its process without a stop. */
  async function restart(identity: SinkIdentity): Promise<void> {
    await bench.sink.close()
    bench.sink = await bench.store.open({ unnumbered: true, ...identity })
  }
  const logs = async () => (await bench.store.replays.audit.logs()).map(({ number, name, writer }) => `${number} ${name} of ${writer}`)

  test('a start gives no number, and neither does a batch in which everything is filtered or empty', async () => {
    await restart({ logName: 'other' })
    expect(bench.sink.logNumbers).toEqual([undefined])
    const filtered = batchOf(0, 5, [{ offset: 1, outcome: 'filtered' }, { offset: 3 }])
    expect(await bench.write(filtered)).toEqual([counts({ received: 2, filtered: 1, empty: 1, skipped: 3 })])
    expect(await bench.position()).toBeUndefined()
    expect(await logs()).toEqual(['1 messages of writer-1'])
    await restart({ logName: 'other' })
    expect(bench.sink.logNumbers).toEqual([undefined])
    expect(await bench.position()).toBeUndefined()
  })

  test('a row without a number of its log is a fault of the caller', async () => {
    await restart({ logName: 'other' })
    expect(() => bench.sink.encode(plainBatch(0, 1))).toThrow(/log 0 has no number/)
  })

  test('a number that was taken before a crash is found again, and the batch is stored once', async () => {
    await restart({ logName: 'other' })
    await bench.sink.takeNumbers([0])
    expect(bench.sink.logNumbers).toEqual([2])
    await restart({ logName: 'other' })
    expect(bench.sink.logNumbers).toEqual([2])
    expect(await bench.position()).toBeUndefined()
    await bench.sink.takeNumbers([0])
    await bench.write(plainBatch(0, 3))
    await restart({ logName: 'other' })
    expect(await bench.write(plainBatch(0, 3))).toEqual([bench.again(3)])
    expect(await bench.values()).toEqual([0, 1, 2])
    expect(await logs()).toEqual(['2 other of writer-1', '1 messages of writer-1'])
  })

  test('workers that take the number of one log at the same moment get the same one', async () => {
    const others = await Promise.all([1, 2, 3].map(() => bench.store.open({ logName: 'other', unnumbered: true })))
    await Promise.all(others.map(sink => sink.takeNumbers([0])))
    expect(others.map(({ logNumbers }) => logNumbers[0])).toEqual([2, 2, 2])
    await Promise.all(others.map(sink => sink.close()))
  })

  test('a partition that moves from a worker with a number to one without goes on where it was', async () => {
    const other = await bench.store.open({ logName: 'other', unnumbered: true })
    await restart({ logName: 'other' })
    await bench.write(batchOf(0, 2, [{ offset: 0, outcome: 'filtered' }]))
    await other.takeNumbers([0])
    await other.write(other.encode(plainBatch(0, 5)), bench.keep, signal)
    await other.close()
    await bench.expectPosition(5)
    await bench.sink.takeNumbers([0])
    await bench.write(plainBatch(5, 6))
    await bench.expectPosition(6)
    expect(await bench.values()).toEqual([0, 1, 2, 3, 4, 5])
  })

  test('what was passed without a number is counted with the first batch that has one', async () => {
    await restart({ logName: 'other' })
    await bench.write(batchOf(0, 4, [{ offset: 0, outcome: 'filtered' }, { offset: 1 }]))
    await bench.write(batchOf(4, 6, [{ offset: 5, outcome: 'filtered' }]))
    await bench.sink.takeNumbers([0])
    expect(await bench.write(plainBatch(6, 8))).toEqual([counts({ received: 2, stored: 2 })])
    await bench.expectPosition(8)
    const [log] = await bench.store.replays.audit.logs()
    if (transactional && bench.store.keepsCounts !== false) {
      expect(log!.partitions.get(0)).toMatchObject({ nextOffset: 8, received: 5, stored: 2, filtered: 2, empty: 1, skipped: 3 })
    }
  })

  test('a batch may cover a log with a number and one without', async () => {
    await restart({ otherLogs: ['other'] })
    const [at, other] = [logPartition(0, 0), logPartition(1, 0)]
    const both = new RecordBatch()
    append(both, plain(0))
    append(both, { offset: 7, log: 1, outcome: 'filtered' })
    both.cover(at, 0, 1)
    both.cover(other, 7, 8)
    expect(await bench.write(both)).toEqual([counts({ received: 1, stored: 1 }), counts({ received: 1, filtered: 1 })])
    expect(await bench.sink.positions?.([at, other])).toEqual(transactional ? new Map([[at, 1]]) : undefined)
    await bench.sink.takeNumbers([1])
    const next = new RecordBatch()
    append(next, { ...plain(8), log: 1 })
    next.cover(other, 8, 9)
    expect(await bench.write(next)).toEqual([counts({ received: 1, stored: 1 })])
    expect(await bench.sink.positions?.([at, other])).toEqual(
      transactional
        ? new Map([
            [at, 1],
            [other, 9],
          ])
        : undefined,
    )
  })

  test('a worker that takes the numbers of several logs, one after another, keeps each of them over a restart', async () => {
    const otherLogs = ['second', 'third']
    await restart({ otherLogs })
    for (const log of [1, 2]) await bench.sink.takeNumbers([log])
    expect(bench.sink.logNumbers).toEqual([1, 2, 3])
    expect((await logs()).toSorted()).toEqual(['1 messages of writer-1', '2 second of writer-1', '3 third of writer-1'])
    await restart({ otherLogs })
    expect(bench.sink.logNumbers).toEqual([1, 2, 3])
  })

  test('writers of different content types share a log, each with its own number and positions', async () => {
    await restart({ contentTypes: [json] })
    const other = await bench.store.open({ writer: 'writer-2', contentTypes: [senml] })
    expect([bench.sink.logNumbers, other.logNumbers]).toEqual([[1], [2]])
    await bench.write(plainBatch(0, 2))
    expect(await other.write(other.encode(plainBatch(0, 2)), bench.keep, signal)).toEqual([counts({ received: 2, stored: 2 })])
    expect((await bench.store.rows()).map(({ value }) => value)).toEqual([0, 1, 0, 1])
    await other.close()
    await restart({ contentTypes: [json] })
    expect(bench.sink.logNumbers).toEqual([1])
    await bench.expectPosition(2)
  })

  test('a writer that takes types of another is refused at its start, and names each way out', async () => {
    await restart({ contentTypes: [json] })
    const refused = /"messages".*"writer-1" \(application\/json\).*"writer-2".*log\.group.*another store.*transformer\.content_types/
    for (const contentTypes of [[senml, json], undefined]) {
      await expect(bench.store.open({ writer: 'writer-2', contentTypes, unnumbered: true })).rejects.toThrow(refused)
    }
    // Changing the types of the first writer makes room for the second.
    await restart({ contentTypes: [senml] })
    await (await bench.store.open({ writer: 'writer-2', contentTypes: [json] })).close()
    await bench.sink.close()
    await expect(bench.store.open()).rejects.toThrow(/belong to the writer "writer-2"/)
    bench.sink = await bench.store.open({ contentTypes: ['none'] })
  })

  test('of two writers that start before either has a number only one gets the log', async () => {
    const [one, other] = [
      await bench.store.open({ logName: 'other', unnumbered: true }),
      await bench.store.open({ logName: 'other', writer: 'writer-2', unnumbered: true }),
    ]
    await one.takeNumbers([0])
    const error = await other.takeNumbers([0]).catch((error: unknown) => error)
    expect(String(error)).toMatch(/belong to the writer "writer-1"/)
    expect(other.classify(error)).toBe('systemic')
    await Promise.all([one.close(), other.close()])
  })
}
