// Workers that come and go while messages flow: nothing is lost, nothing is stored twice, and no commit is ahead of what is stored.

import { setTimeout as wait } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { LogUnavailableError } from '../../../../pipeline/log.ts'
import type { RawChunk, Source } from '../../../../pipeline/source.ts'
import { type LogPartition, logPartition, partitionName } from '../../../../transformers/log-partition.ts'
import { describeWithOwnKafka } from '../../../servers/kafka.ts'
import { openTools, type Sources, sourcesOf, type Tools, textsOf } from './source-parts.ts'

const partitions = 6
/** Minimum duration; messages flow until enough workers have come and gone. */
const flowMs = 6_000
const changesMin = 6

/** A store with the position of each partition, like one with transactions. */
interface Store {
  readonly next: Map<LogPartition, number>
  readonly rows: Map<string, number>
  holes: string[]
  /** False if it is already ahead of the worker: nothing is written, and the worker asks for its positions. */
  write(chunk: RawChunk): Promise<boolean>
}

function openStore(keepsPositions: boolean): Store {
  const store: Store = {
    next: new Map(),
    rows: new Map(),
    holes: [],
    async write(chunk) {
      await wait(Math.random() * 20)
      const next = store.next.get(chunk.at) ?? 0
      if (chunk.from > next) store.holes.push(`${partitionName(chunk.at)}: ${next} to ${chunk.from}`)
      // A store without positions writes the same keys again.
      if (keepsPositions && chunk.from !== next) return false
      for (const text of textsOf(chunk)) store.rows.set(text, (store.rows.get(text) ?? 0) + 1)
      store.next.set(chunk.at, Math.max(next, chunk.to))
      return true
    },
  }
  return store
}

/** A worker like a writer's: revoked chunks are dropped, and it retries while the log is away. */
function startWorker(source: Source, store: Store): { stop(): Promise<void>; readonly done: Promise<void> } {
  const stopping = new AbortController()
  async function work(): Promise<void> {
    while (!stopping.signal.aborted) {
      let isRevoked = new AbortController().signal
      try {
        const chunks = source.chunks(stopping.signal, (_, revoked) => {
          isRevoked = revoked
        })
        for await (const chunk of chunks) {
          if (!(await store.write(chunk)) || isRevoked.aborted) break
          await source.commit(new Map([[chunk.at, chunk.to]]))
        }
      } catch (error) {
        if (!(error instanceof LogUnavailableError)) throw error
        await wait(50)
      }
    }
  }
  const done = work()
  done.catch(() => undefined)
  return {
    done,
    async stop() {
      stopping.abort()
      await done
      await source.close()
    },
  }
}

describeWithOwnKafka('workers that come and go', kafka => {
  for (const [keepsPositions, isNamed] of [
    [true, false],
    [true, true],
    [false, false],
  ] as const) {
    test(`${isNamed ? 'named in their group' : 'without names'}, a store that ${keepsPositions ? 'keeps positions' : 'relies on commits'} has each message, and is never behind a commit`, async () => {
      const topic = await kafka.createTopic({ partitions })
      const sources = sourcesOf(kafka.brokers, topic, isNamed)
      const open = (): Source => sources.open(settings)
      const tools = await openTools(kafka.brokers)
      const store = openStore(keepsPositions)
      const startAt = async (asked: readonly LogPartition[]) => new Map(asked.map(at => [at, store.next.get(at) ?? 0]))
      const settings = { chunkMessagesMax: 20, ...(keepsPositions ? { startAt } : {}) }
      const workers = [startWorker(open(), store)]
      const sent = await flow(tools, sources, topic, store, async () => {
        if (workers.length < 2 || (workers.length < 4 && Math.random() < 0.5)) workers.push(startWorker(open(), store))
        else await workers.splice(Math.floor(Math.random() * workers.length), 1)[0]!.stop()
      })
      await expect.poll(() => store.rows.size).toBe(sent)
      expect(store.holes).toEqual([])
      if (keepsPositions) expect([...store.rows.values()].every(times => times === 1)).toBe(true)
      await Promise.all(workers.map(worker => worker.stop()))
      const committed = await tools.committed(topic, sources.group())
      for (const [partition, offset] of committed) expect(offset).toBeLessThanOrEqual(store.next.get(logPartition(0, partition))!)
      await tools.close()
    })
  }

  /** Sends messages, changes the workers from time to time with `change`, and checks the commits. Resolves with the number of messages. */
  async function flow(tools: Tools, sources: Sources, topic: string, store: Store, change: () => Promise<void>): Promise<number> {
    const untilMs = performance.now() + flowMs
    let sent = 0
    let changes = 0
    let ahead = 0
    const isFlowing = (): boolean => performance.now() < untilMs || changes < changesMin
    async function send(): Promise<void> {
      while (isFlowing()) {
        const texts = Array.from({ length: 30 }, (_, at) => `${sent + at}`)
        await tools.appendTexts(topic, texts, (sent / 30) % partitions)
        sent += texts.length
        await wait(10)
      }
    }
    async function shake(): Promise<void> {
      while (isFlowing()) {
        await change()
        changes++
        await wait(Math.random() * 1000)
      }
    }
    async function look(): Promise<void> {
      const highest = new Map<number, number>()
      while (isFlowing()) {
        const committed = await tools.committed(topic, sources.group())
        for (const [partition, offset] of committed) {
          // Read after the commits, because more may be stored in between.
          if (offset > (store.next.get(logPartition(0, partition)) ?? 0)) ahead++
          if (offset < (highest.get(partition) ?? 0)) ahead++
          highest.set(partition, offset)
        }
        await wait(50)
      }
    }
    await Promise.all([send(), shake(), look()])
    expect(ahead).toBe(0)
    return sent
  }
})
