// The contract of every Source of logs with several partitions that several workers share, for the real ones.

import { setTimeout as wait } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { LogUnavailableError } from '../../pipeline/log.ts'
import type { RawChunk, Source } from '../../pipeline/source.ts'
import { SystemicError } from '../../pipeline/systemic-error.ts'
import { type LogPartition, logPartition } from '../../transformers/log-partition.ts'
import { positionsOf } from '../pipeline/positions.ts'
import type { SourceSettings } from './source.ts'

/** Logs, and the workers of one consumer on them. A partition is a `LogPartition`: of the first log its number. */
export interface SharedLogUnderTest {
  append(at: number, texts: readonly string[]): Promise<unknown>
  /** Opens another worker, by default with the session below. */
  open(settings?: SourceSettings, sessionMs?: number): Source
  /** The time without contact after which a worker loses its share. */
  readonly sessionMs: number
  /** The offsets committed by the workers. */
  committed(): Promise<ReadonlyMap<number, number>>
  /** Increases the number of partitions of the first log. */
  addPartitions(count: number): Promise<void>
  /** Deletes the log with this index. Resolves with its name. */
  delete(log: number): Promise<string>
  /** Closes everything that is open. */
  dispose(): Promise<void>
}

/** A worker that reads share after share until it is stopped. */
interface Worker {
  readonly source: Source
  /** The partitions of the current share; undefined between two. */
  readonly share: readonly number[] | undefined
  readonly revoked: AbortSignal | undefined
  /** Number of shares so far. */
  readonly shares: number
  /** Why it ended by itself. */
  readonly failure: Error | undefined
  /** The messages it got, as `<partition>/<offset>`, in order. */
  readonly taken: string[]
  stop(): Promise<void>
}

interface WorkerOptions {
  /** Awaited after each chunk, to simulate a slow store. */
  readonly work?: (chunk: RawChunk, revoked: AbortSignal) => Promise<void>
}

function startWorker(source: Source, { work }: WorkerOptions = {}): Worker {
  const stopping = new AbortController()
  const worker = {
    source,
    share: undefined as readonly number[] | undefined,
    revoked: undefined as AbortSignal | undefined,
    shares: 0,
    failure: undefined as Error | undefined,
    taken: [] as string[],
    async stop() {
      stopping.abort()
      await done
    },
  }
  const done = live()
  // Tests see that the worker has stopped; `stop` throws the error.
  done.catch((error: Error) => (worker.failure = error))
  async function live(): Promise<void> {
    let shares = 0
    let isClosed = false
    while (!stopping.signal.aborted && !isClosed) {
      const chunks = source.chunks(stopping.signal, (positions, revoked) => {
        worker.share = [...positions.keys()].toSorted((left, right) => left - right)
        worker.revoked = revoked
        worker.shares++
      })
      try {
        for await (const chunk of chunks) {
          const cursor = chunk.cursor()
          while (cursor.next()) worker.taken.push(`${chunk.at}/${cursor.message.offset}`)
          await work?.(chunk, worker.revoked!)
        }
        isClosed = worker.shares === shares || worker.revoked?.aborted !== true
        shares = worker.shares
      } catch (error) {
        if (!(error instanceof LogUnavailableError)) throw error
        await wait(100)
      }
      worker.share = undefined
    }
  }
  return worker
}

const longSessionMs = 600_000
const texts = (count: number): string[] => Array.from({ length: count }, (_, at) => `m${at}`)

/** @param open gets the number of partitions of each log */
export function sharedSourceConformance(name: string, open: (partitions: readonly number[]) => Promise<SharedLogUnderTest>): void {
  async function withLog(partitions: number | readonly number[], work: (under: SharedLogUnderTest) => Promise<void>): Promise<void> {
    const under = await open([partitions].flat())
    try {
      await work(under)
    } finally {
      await under.dispose()
    }
  }

  describe(`${name} fulfils the contract of a shared source`, () => {
    test('a single worker has every partition, and gets each in order', () =>
      withLog(3, async under => {
        for (const partition of [0, 1, 2]) await under.append(partition, texts(10))
        const worker = startWorker(under.open({ chunkMessagesMax: 4 }))
        await expect.poll(() => worker.taken.length).toBe(30)
        expect(worker.share).toEqual([0, 1, 2])
        for (const partition of [0, 1, 2]) {
          const own = worker.taken.filter(one => one.startsWith(`${partition}/`))
          expect(own).toEqual(texts(10).map((_, at) => `${partition}/${at}`))
        }
        await worker.stop()
      }))

    test('positions are requested for the assigned partitions, and unknown ones begin at the start', () =>
      withLog(2, async under => {
        await under.append(0, texts(5))
        await under.append(1, texts(5))
        const asked: number[][] = []
        const worker = startWorker(
          under.open({
            startAt: async partitions => {
              asked.push([...partitions])
              return positionsOf({ 1: 3 })
            },
          }),
        )
        await expect.poll(() => worker.taken.length).toBe(7)
        expect(asked).toEqual([[0, 1]])
        expect(worker.taken.filter(one => one.startsWith('1/'))).toEqual(['1/3', '1/4'])
        await worker.stop()
      }))

    test('a second worker gets a part: the first is notified immediately, its chunks end, and the shares do not overlap', () =>
      withLog(4, async under => {
        const first = startWorker(under.open())
        await expect.poll(() => first.share).toEqual([0, 1, 2, 3])
        const { revoked } = first
        const second = startWorker(under.open())
        await expect.poll(() => second.share?.length).toBe(2)
        await expect.poll(() => first.shares).toBe(2)
        expect(revoked!.aborted).toBe(true)
        expect([...first.share!, ...second.share!].toSorted((left, right) => left - right)).toEqual([0, 1, 2, 3])
        for (const partition of [0, 1, 2, 3]) await under.append(partition, texts(3))
        await expect.poll(() => first.taken.length + second.taken.length).toBe(12)
        expect(new Set([...first.taken, ...second.taken]).size).toBe(12)
        await Promise.all([first.stop(), second.stop()])
      }))

    test('the share of a closed worker goes to the others immediately', () =>
      withLog(2, async under => {
        // Sessions do not end within the test.
        const first = startWorker(under.open({}, longSessionMs))
        await expect.poll(() => first.share).toEqual([0, 1])
        const second = startWorker(under.open({}, longSessionMs))
        await expect.poll(() => second.share?.length).toBe(1)
        await first.stop()
        await first.source.close()
        await expect.poll(() => second.share).toEqual([0, 1])
        await second.stop()
      }))

    test('one worker more than partitions waits, and gets a share when another one ends', () =>
      withLog(1, async under => {
        const first = startWorker(under.open())
        await expect.poll(() => first.share).toEqual([0])
        const second = startWorker(under.open())
        await expect.poll(() => [first.share, second.share].some(share => share?.length === 0)).toBe(true)
        const [idle, busy] = first.share?.length === 0 ? [first, second] : [second, first]
        await expect.poll(() => busy.share).toEqual([0])
        await under.append(0, texts(3))
        await expect.poll(() => busy.taken).toEqual(['0/0', '0/1', '0/2'])
        expect(idle.taken).toEqual([])
        await busy.source.commit(positionsOf({ 0: 3 }))
        await busy.stop()
        await busy.source.close()
        await expect.poll(() => idle.share).toEqual([0])
        await under.append(0, texts(1))
        await expect.poll(() => idle.taken).toEqual(['0/3'])
        await idle.stop()
      }))

    test('revoked partitions are no longer committed, and one that stayed is', () =>
      withLog(2, async under => {
        await under.append(0, texts(9))
        await under.append(1, texts(9))
        const first = startWorker(under.open())
        await expect.poll(() => first.taken.length).toBe(18)
        await first.source.commit(
          positionsOf({
            0: 2,
            1: 2,
          }),
        )
        await first.stop() // like a pipeline in the middle of its work: it requests nothing
        const { revoked } = first
        const second = startWorker(under.open())
        await expect.poll(() => second.share?.length).toBe(1)
        await expect.poll(() => revoked!.aborted).toBe(true)
        await first.source.commit(
          positionsOf({
            0: 9,
            1: 9,
          }),
        )
        expect(await under.committed()).toEqual(
          positionsOf({
            0: 2,
            1: 2,
          }),
        )
        // The other worker resumes where the first had committed.
        const [moved] = second.share!
        await expect.poll(() => second.taken).toEqual(texts(7).map((_, at) => `${moved}/${at + 2}`))
        await second.source.commit(positionsOf({ [moved!]: 9 }))
        expect((await under.committed()).get(moved!)).toBe(9)
        await second.stop()
      }))

    test('a worker that requests nothing for longer than a session keeps its share', () =>
      withLog(1, async under => {
        await under.append(0, texts(2))
        const gate = Promise.withResolvers<void>()
        const worker = startWorker(under.open({ chunkMessagesMax: 1 }), { work: () => gate.promise })
        await expect.poll(() => worker.taken.length).toBe(1)
        await wait(1.5 * under.sessionMs)
        expect(worker.revoked!.aborted).toBe(false)
        gate.resolve()
        await expect.poll(() => worker.taken).toEqual(['0/0', '0/1'])
        await worker.source.commit(positionsOf({ 0: 2 }))
        expect(await under.committed()).toEqual(positionsOf({ 0: 2 }))
        expect(worker.shares).toBe(1)
        await worker.stop()
      }))

    test('added partitions are assigned, and begin at their start', () =>
      withLog(1, async under => {
        const worker = startWorker(under.open())
        await expect.poll(() => worker.share).toEqual([0])
        await under.addPartitions(3)
        await expect.poll(() => worker.share).toEqual([0, 1, 2])
        await under.append(2, texts(2))
        await expect.poll(() => worker.taken).toEqual(['2/0', '2/1'])
        await worker.stop()
      }))

    const severalLogs: readonly LogPartition[] = [logPartition(0, 0), logPartition(0, 1), logPartition(0, 2), logPartition(1, 0)]

    test('several logs with different numbers of partitions are shared as one: evenly, each in order, with the commits of each', () =>
      withLog([3, 1], async under => {
        for (const at of severalLogs) await under.append(at, texts(10))
        const first = startWorker(under.open({ chunkMessagesMax: 4 }))
        await expect.poll(() => first.taken.length).toBe(40)
        expect(first.share).toEqual(severalLogs)
        for (const at of severalLogs) {
          expect(first.taken.filter(one => one.startsWith(`${at}/`))).toEqual(texts(10).map((_, offset) => `${at}/${offset}`))
        }
        const all = new Map(severalLogs.map((at, nth) => [at, nth + 5]))
        await first.source.commit(all)
        expect(await under.committed()).toEqual(all)
        await first.stop()
        await first.source.close()
        const others = [startWorker(under.open()), startWorker(under.open())]
        await expect.poll(() => others.map(({ share }) => share?.length)).toEqual([2, 2])
        // What was handed out before the other joined may come twice.
        await expect.poll(() => new Set(others.flatMap(({ taken }) => taken)).size).toBe(5 + 4 + 3 + 2)
        for (const other of others) await other.stop()
      }))

    test('the store is asked for the positions of all logs at once, and their ends are those of each', () =>
      withLog([2, 2], async under => {
        const positions = new Map([
          [logPartition(0, 1), 2],
          [logPartition(1, 1), 3],
        ])
        for (const at of [0, 1]) await under.append(logPartition(at, 1), texts(4))
        const asked: (readonly number[])[] = []
        const startAt = async (of: readonly LogPartition[]) => {
          asked.push(of)
          return positions
        }
        const worker = startWorker(under.open({ startAt }))
        await expect
          .poll(() => worker.taken.toSorted())
          .toEqual([`${logPartition(0, 1)}/2`, `${logPartition(0, 1)}/3`, `${logPartition(1, 1)}/3`])
        const both = [0, 1].flatMap(log => [logPartition(log, 0), logPartition(log, 1)])
        expect(asked).toEqual([both])
        expect(await worker.source.ends()).toEqual(new Map(both.map((at, nth) => [at, nth % 2 === 0 ? 0 : 4])))
        await worker.stop()
      }))

    test('a log that is deleted stops the worker with an error that names it', () =>
      withLog([1, 1], async under => {
        for (const at of [0, 1]) await under.append(logPartition(at, 0), texts(1))
        const worker = startWorker(under.open())
        await expect.poll(() => worker.taken.length).toBe(2)
        const deleted = await under.delete(1)
        await expect.poll(() => worker.failure).toBeInstanceOf(SystemicError)
        expect(worker.failure!.message).toContain(`the topic ${deleted} does not exist`)
      }))
  })
}
