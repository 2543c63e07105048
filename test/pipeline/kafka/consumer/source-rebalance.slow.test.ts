// Workers that come and go while messages flow: nothing is lost, nothing is stored twice, and no commit is ahead of what is stored.

import { setTimeout as wait } from 'node:timers/promises'
import { Consumer } from '@platformatic/kafka'
import { expect, test } from 'vitest'
import { LogUnavailableError } from '../../../../pipeline/log.ts'
import type { RawChunk, Source } from '../../../../pipeline/source.ts'
import { type LogPartition, logPartition, partitionName } from '../../../../transformers/log-partition.ts'
import { describeWithOwnKafka } from '../../../servers/kafka.ts'
import { openTools, sourcesOf, type Tools, textsOf } from './source-parts.ts'

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

/** A topic with its messages, the store of its workers, and these. */
interface Flow {
  readonly topic: string
  readonly store: Store
  readonly workers: ReturnType<typeof startWorker>[]
  sent: number
}

describeWithOwnKafka('workers that come and go', kafka => {
  for (const [keepsPositions, isNamed, count] of [
    [true, false, 1],
    [true, true, 1],
    [false, false, 1],
    [false, false, 2],
  ] as const) {
    test(`${isNamed ? 'named in their group' : 'without names'}, each of one of ${count} topics, a store that ${keepsPositions ? 'keeps positions' : 'relies on commits'} has each message, and is never behind a commit`, async () => {
      const topics = await Promise.all(Array.from({ length: count }, () => kafka.createTopic({ partitions })))
      const sources = sourcesOf(kafka.brokers, topics, isNamed)
      const tools = await openTools(kafka.brokers)
      const flows = topics.map((topic): Flow => ({ topic, store: openStore(keepsPositions), workers: [], sent: 0 }))
      function start({ topic, store, workers }: Flow): void {
        const startAt = async (asked: readonly LogPartition[]) => new Map(asked.map(at => [at, store.next.get(at) ?? 0]))
        const settings = { topics: [topic], chunkMessagesMax: 20, ...(keepsPositions ? { startAt } : {}) }
        workers.push(startWorker(sources.open(settings), store))
      }
      flows.forEach(start)
      await run(tools, sources.group(), flows, async () => {
        const flow = flows[Math.floor(Math.random() * flows.length)]!
        const { workers } = flow
        if (workers.length < 2 || (workers.length < 4 && Math.random() < 0.5)) start(flow)
        else await workers.splice(Math.floor(Math.random() * workers.length), 1)[0]!.stop()
      })
      for (const { topic, store, sent, workers } of flows) {
        await expect.poll(() => store.rows.size).toBe(sent)
        expect(store.holes).toEqual([])
        if (keepsPositions) expect([...store.rows.values()].every(times => times === 1)).toBe(true)
        await Promise.all(workers.map(worker => worker.stop()))
        const committed = await tools.committed(topic, sources.group())
        for (const [partition, offset] of committed) expect(offset).toBeLessThanOrEqual(store.next.get(logPartition(0, partition))!)
      }
      await tools.close()
    })
  }

  test('another program in the group gets the partitions of its topic from a worker that leads, also new ones', async () => {
    const [own, other] = [await kafka.createTopic({ partitions: 2 }), await kafka.createTopic({ partitions: 3 })]
    const sources = sourcesOf(kafka.brokers, own)
    const tools = await openTools(kafka.brokers)
    const store = openStore(false)
    const worker = startWorker(sources.open(), store)
    await tools.appendTexts(own, ['first'])
    // It has a share, so it leads.
    await expect.poll(() => store.rows.size).toBe(1)
    const program = new Consumer({ clientId: 'other', groupId: sources.group(), bootstrapBrokers: [...kafka.brokers], autocommit: false })
    const stream = await program.consume({ topics: [other], mode: 'earliest' })
    const partitionsOf = (): number[] => program.assignments?.flatMap(({ topic, partitions: had }) => (topic === other ? had : [])) ?? []
    expect(partitionsOf()).toEqual([0, 1, 2])
    await tools.admin.createPartitions({ topicPartitions: [{ topic: other, count: 4 }] })
    await expect.poll(partitionsOf).toEqual([0, 1, 2, 3])
    await tools.appendTexts(own, ['second'], 1)
    await expect.poll(() => store.rows.size).toBe(2)
    await stream.close()
    await Promise.all([program.close(), worker.stop(), tools.close()])
  })

  /** Sends messages to each topic, changes the workers from time to time with `change`, and checks the commits. */
  async function run(tools: Tools, group: string, flows: readonly Flow[], change: () => Promise<void>): Promise<void> {
    const untilMs = performance.now() + flowMs
    let changes = 0
    let ahead = 0
    const isFlowing = (): boolean => performance.now() < untilMs || changes < changesMin
    async function send(flow: Flow): Promise<void> {
      while (isFlowing()) {
        const texts = Array.from({ length: 30 }, (_, at) => `${flow.sent + at}`)
        await tools.appendTexts(flow.topic, texts, (flow.sent / 30) % partitions)
        flow.sent += texts.length
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
    async function look({ topic, store }: Flow): Promise<void> {
      const highest = new Map<number, number>()
      while (isFlowing()) {
        const committed = await tools.committed(topic, group)
        for (const [partition, offset] of committed) {
          // Read after the commits, because more may be stored in between.
          if (offset > (store.next.get(logPartition(0, partition)) ?? 0)) ahead++
          if (offset < (highest.get(partition) ?? 0)) ahead++
          highest.set(partition, offset)
        }
        await wait(50)
      }
    }
    await Promise.all([...flows.flatMap(flow => [send(flow), look(flow)]), shake()])
    expect(ahead).toBe(0)
  }
})
