// Workers that come and go while messages flow: nothing is lost, nothing is stored twice, and no commit is ahead of what is stored.

import { setTimeout as wait } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { LogUnavailableError } from '../../../pipeline/log.ts'
import type { RawRun, Source } from '../../../pipeline/source.ts'
import { describeWithOwnKafka } from '../../servers/kafka.ts'
import { clients, openTools, type Sources, sourcesOf, type Tools, textsOf } from './source-parts.ts'

const partitions = 6
const flowMs = 15_000

/** A store that knows where each partition goes on, as a transaction would hold it. */
interface Store {
  readonly next: Map<number, number>
  readonly rows: Map<string, number>
  holes: string[]
  /** False where it has gone on without the worker: nothing is written, and the worker asks where to go on. */
  write(run: RawRun): Promise<boolean>
}

function openStore(keepsPositions: boolean): Store {
  const store: Store = {
    next: new Map(),
    rows: new Map(),
    holes: [],
    async write(run) {
      await wait(Math.random() * 20)
      const next = store.next.get(run.partition) ?? 0
      if (run.from > next) store.holes.push(`${run.partition}: ${next} to ${run.from}`)
      // A store that keeps no positions writes the same keys again.
      if (keepsPositions && run.from !== next) return false
      for (const text of textsOf(run)) store.rows.set(text, (store.rows.get(text) ?? 0) + 1)
      store.next.set(run.partition, Math.max(next, run.to))
      return true
    },
  }
  return store
}

/** A worker as run.ts is one: what is revoked is dropped, and what is away is asked for again. */
function startWorker(source: Source, store: Store): { stop(): Promise<void>; readonly done: Promise<void> } {
  const stopping = new AbortController()
  async function work(): Promise<void> {
    while (!stopping.signal.aborted) {
      let isRevoked = new AbortController().signal
      try {
        const runs = source.runs(stopping.signal, (_, revoked) => {
          isRevoked = revoked
        })
        for await (const run of runs) {
          if (!(await store.write(run)) || isRevoked.aborted) break
          await source.commit(new Map([[run.partition, run.to]]))
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
  for (const [keepsPositions, own] of [
    [true, ['kafkajs']],
    [true, ['platformatic']],
    [false, clients],
  ] as const) {
    test(`on ${own.join(' and ')}, a store that ${keepsPositions ? 'keeps positions' : 'relies on commits'} has each message, and is never behind a commit`, async () => {
      const topic = await kafka.createTopic({ partitions })
      const sources = sourcesOf(kafka.brokers, topic, own[0])
      let opened = 0
      const open = (): Source => sources.open({ ...settings, client: own[opened++ % own.length]! })
      const tools = await openTools(kafka.brokers)
      const store = openStore(keepsPositions)
      const startAt = async (asked: readonly number[]) => new Map(asked.map(partition => [partition, store.next.get(partition) ?? 0]))
      const settings = { runMessagesMax: 20, ...(keepsPositions ? { startAt } : {}) }
      const workers = [startWorker(open(), store)]
      const sent = await flow(tools, sources, topic, store, async () => {
        if (workers.length < 2 || (workers.length < 4 && Math.random() < 0.5)) workers.push(startWorker(open(), store))
        else await workers.splice(Math.floor(Math.random() * workers.length), 1)[0]!.stop()
      })
      await expect.poll(() => store.rows.size, { timeout: 30_000 }).toBe(sent)
      expect(store.holes).toEqual([])
      if (keepsPositions) expect([...store.rows.values()].every(times => times === 1)).toBe(true)
      await Promise.all(workers.map(worker => worker.stop()))
      const committed = await tools.committed(topic, sources.group())
      for (const [partition, offset] of committed) expect(offset).toBeLessThanOrEqual(store.next.get(partition)!)
      await tools.close()
    })
  }

  /** Sends, lets `change` change the workers now and then, and looks at the commits. Resolves with how many were sent. */
  async function flow(tools: Tools, sources: Sources, topic: string, store: Store, change: () => Promise<void>): Promise<number> {
    const untilMs = performance.now() + flowMs
    let sent = 0
    let changes = 0
    let ahead = 0
    async function send(): Promise<void> {
      while (performance.now() < untilMs) {
        const texts = Array.from({ length: 30 }, (_, at) => `${sent + at}`)
        await tools.appendTexts(topic, texts, (sent / 30) % partitions)
        sent += texts.length
        await wait(10)
      }
    }
    async function shake(): Promise<void> {
      while (performance.now() < untilMs) {
        await change()
        changes++
        await wait(Math.random() * 1000)
      }
    }
    async function look(): Promise<void> {
      const highest = new Map<number, number>()
      while (performance.now() < untilMs) {
        const committed = await tools.committed(topic, sources.group())
        for (const [partition, offset] of committed) {
          // Read after the commits: what is stored can only be more.
          if (offset > (store.next.get(partition) ?? 0)) ahead++
          if (offset < (highest.get(partition) ?? 0)) ahead++
          highest.set(partition, offset)
        }
        await wait(50)
      }
    }
    await Promise.all([send(), shake(), look()])
    expect(ahead).toBe(0)
    expect(changes).toBeGreaterThan(5)
    return sent
  }
})
