// What every Source of a log with several partitions keeps, when several workers share it: run against the real ones.

import { setTimeout as wait } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { LogUnavailableError } from '../../pipeline/log.ts'
import type { RawRun, Source } from '../../pipeline/source.ts'
import type { SourceSettings } from './source.ts'

/** A log with so many partitions, and the workers of one consumer on it. */
export interface SharedLogUnderTest {
  append(partition: number, texts: readonly string[]): Promise<unknown>
  /** One more worker. */
  open(settings?: SourceSettings): Source
  /** After which a worker that is not heard of loses its share. */
  readonly sessionMs: number
  /** What the workers have committed. */
  committed(): Promise<ReadonlyMap<number, number>>
  /** Makes it have so many. */
  addPartitions(count: number): Promise<void>
  /** Closes what is open. */
  dispose(): Promise<void>
}

/** A worker that takes whatever it is given, share after share, until it stops. */
interface Worker {
  readonly source: Source
  /** The partitions of the share at hand; undefined between two. */
  readonly share: readonly number[] | undefined
  readonly revoked: AbortSignal | undefined
  /** Shares so far. */
  readonly shares: number
  /** What it was given, as `<partition>/<offset>`, in order. */
  readonly taken: string[]
  stop(): Promise<void>
}

interface WorkerOptions {
  /** Awaited after each run: a store that takes its time. */
  readonly work?: (run: RawRun, revoked: AbortSignal) => Promise<void>
}

function startWorker(source: Source, { work }: WorkerOptions = {}): Worker {
  const stopping = new AbortController()
  const worker = {
    source,
    share: undefined as readonly number[] | undefined,
    revoked: undefined as AbortSignal | undefined,
    shares: 0,
    taken: [] as string[],
    async stop() {
      stopping.abort()
      await done
    },
  }
  const done = live()
  // Who looks at the worker sees that it stands still; `stop` says why.
  done.catch(() => undefined)
  async function live(): Promise<void> {
    let shares = 0
    let isClosed = false
    while (!stopping.signal.aborted && !isClosed) {
      const runs = source.runs(stopping.signal, (positions, revoked) => {
        worker.share = [...positions.keys()].toSorted((left, right) => left - right)
        worker.revoked = revoked
        worker.shares++
      })
      try {
        for await (const run of runs) {
          const cursor = run.cursor()
          while (cursor.next()) worker.taken.push(`${run.partition}/${cursor.message.offset}`)
          await work?.(run, worker.revoked!)
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

const soon = { timeout: 15_000 }
const texts = (count: number): string[] => Array.from({ length: count }, (_, at) => `m${at}`)

export function sharedSourceConformance(name: string, open: (partitions: number) => Promise<SharedLogUnderTest>): void {
  async function withLog(partitions: number, work: (under: SharedLogUnderTest) => Promise<void>): Promise<void> {
    const under = await open(partitions)
    try {
      await work(under)
    } finally {
      await under.dispose()
    }
  }

  describe(`${name} keeps the contract of a source that others share`, () => {
    test('a worker alone has every partition, and gets each in order', () =>
      withLog(3, async under => {
        for (const partition of [0, 1, 2]) await under.append(partition, texts(10))
        const worker = startWorker(under.open({ runMessagesMax: 4 }))
        await expect.poll(() => worker.taken.length, soon).toBe(30)
        expect(worker.share).toEqual([0, 1, 2])
        for (const partition of [0, 1, 2]) {
          const own = worker.taken.filter(one => one.startsWith(`${partition}/`))
          expect(own).toEqual(texts(10).map((_, at) => `${partition}/${at}`))
        }
        await worker.stop()
      }))

    test('positions are asked for the partitions that it was given, and unknown ones begin at the start', () =>
      withLog(2, async under => {
        await under.append(0, texts(5))
        await under.append(1, texts(5))
        const asked: number[][] = []
        const worker = startWorker(
          under.open({
            startAt: async partitions => {
              asked.push([...partitions])
              return new Map([[1, 3]])
            },
          }),
        )
        await expect.poll(() => worker.taken.length, soon).toBe(7)
        expect(asked).toEqual([[0, 1]])
        expect(worker.taken.filter(one => one.startsWith('1/'))).toEqual(['1/3', '1/4'])
        await worker.stop()
      }))

    test('a second worker takes its part: the first is told at once, its runs end, and the shares are apart', () =>
      withLog(4, async under => {
        const first = startWorker(under.open())
        await expect.poll(() => first.share, soon).toEqual([0, 1, 2, 3])
        const { revoked } = first
        const second = startWorker(under.open())
        await expect.poll(() => second.share?.length, soon).toBe(2)
        await expect.poll(() => first.shares, soon).toBe(2)
        expect(revoked!.aborted).toBe(true)
        expect([...first.share!, ...second.share!].toSorted((left, right) => left - right)).toEqual([0, 1, 2, 3])
        for (const partition of [0, 1, 2, 3]) await under.append(partition, texts(3))
        await expect.poll(() => first.taken.length + second.taken.length, soon).toBe(12)
        expect(new Set([...first.taken, ...second.taken]).size).toBe(12)
        await Promise.all([first.stop(), second.stop()])
      }))

    test('what a closed worker had goes to the others at once', () =>
      withLog(2, async under => {
        const first = startWorker(under.open())
        await expect.poll(() => first.share, soon).toEqual([0, 1])
        const second = startWorker(under.open())
        await expect.poll(() => second.share?.length, soon).toBe(1)
        await first.stop()
        const sinceMs = performance.now()
        await first.source.close()
        await expect.poll(() => second.share, soon).toEqual([0, 1])
        expect(performance.now() - sinceMs).toBeLessThan(under.sessionMs)
        await second.stop()
      }))

    test('a worker more than there are partitions waits, and has its turn when another ends', () =>
      withLog(1, async under => {
        const first = startWorker(under.open())
        await expect.poll(() => first.share, soon).toEqual([0])
        const second = startWorker(under.open())
        await expect.poll(() => [first.share, second.share].some(share => share?.length === 0), soon).toBe(true)
        const [idle, busy] = first.share?.length === 0 ? [first, second] : [second, first]
        await expect.poll(() => busy.share, soon).toEqual([0])
        await under.append(0, texts(3))
        await expect.poll(() => busy.taken, soon).toEqual(['0/0', '0/1', '0/2'])
        expect(idle.taken).toEqual([])
        await busy.source.commit(new Map([[0, 3]]))
        await busy.stop()
        await busy.source.close()
        await expect.poll(() => idle.share, soon).toEqual([0])
        await under.append(0, texts(1))
        await expect.poll(() => idle.taken, soon).toEqual(['0/3'])
        await idle.stop()
      }))

    test('what was revoked is not committed any more, and a partition that stayed is', () =>
      withLog(2, async under => {
        await under.append(0, texts(9))
        await under.append(1, texts(9))
        const first = startWorker(under.open())
        await expect.poll(() => first.taken.length, soon).toBe(18)
        await first.source.commit(
          new Map([
            [0, 2],
            [1, 2],
          ]),
        )
        await first.stop() // as a pipeline that is in the middle of its work: it asks for nothing
        const { revoked } = first
        const second = startWorker(under.open())
        await expect.poll(() => second.share?.length, soon).toBe(1)
        await expect.poll(() => revoked!.aborted, soon).toBe(true)
        await first.source.commit(
          new Map([
            [0, 9],
            [1, 9],
          ]),
        )
        expect(await under.committed()).toEqual(
          new Map([
            [0, 2],
            [1, 2],
          ]),
        )
        // The other one goes on where the first had committed.
        const [moved] = second.share!
        await expect.poll(() => second.taken, soon).toEqual(texts(7).map((_, at) => `${moved}/${at + 2}`))
        await second.source.commit(new Map([[moved!, 9]]))
        expect((await under.committed()).get(moved!)).toBe(9)
        await second.stop()
      }))

    test('a worker that asks for nothing for longer than a session keeps its share', () =>
      withLog(1, async under => {
        await under.append(0, texts(2))
        const gate = Promise.withResolvers<void>()
        const worker = startWorker(under.open({ runMessagesMax: 1 }), { work: () => gate.promise })
        await expect.poll(() => worker.taken.length, soon).toBe(1)
        await wait(1.5 * under.sessionMs)
        expect(worker.revoked!.aborted).toBe(false)
        gate.resolve()
        await expect.poll(() => worker.taken, soon).toEqual(['0/0', '0/1'])
        await worker.source.commit(new Map([[0, 2]]))
        expect(await under.committed()).toEqual(new Map([[0, 2]]))
        expect(worker.shares).toBe(1)
        await worker.stop()
      }))

    test('partitions that are added are given out, and begin at their start', () =>
      withLog(1, async under => {
        const worker = startWorker(under.open())
        await expect.poll(() => worker.share, soon).toEqual([0])
        await under.addPartitions(3)
        await expect.poll(() => worker.share, soon).toEqual([0, 1, 2])
        await under.append(2, texts(2))
        await expect.poll(() => worker.taken, soon).toEqual(['2/0', '2/1'])
        await worker.stop()
      }))
  })
}
