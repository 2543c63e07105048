// The dead letters of several topics as one queue, and their replay as one replay. Each topic has its own dead-letter topic.

import { parseMessageId } from '../message-id.ts'
import { SystemicError } from '../systemic-error.ts'
import type { DeadLetterFilter } from './filter.ts'
import type { DeadLetterQueue, DropReport } from './queue.ts'
import type { Replay, ReplayReport } from './replay.ts'

/** Those of a list are merged by the time of their messages; those of `each` come topic by topic. */
export function queueOfSeveral(queues: readonly DeadLetterQueue[]): DeadLetterQueue {
  if (queues.length === 1) return queues[0]!
  return {
    async list(filter, limit) {
      const pages = await inTurn(queues, queue => queue.list(filter, limit))
      const newest = pages.flatMap(page => page.letters).toSorted((one, other) => Number(one.created) - Number(other.created))
      return { letters: limit === 0 ? [] : newest.slice(-limit), total: pages.reduce((sum, { total }) => sum + total, 0) }
    },
    async *each(filter) {
      for (const queue of queues) yield* queue.each(filter)
    },
    async show(id) {
      return (await inTurn(queues, queue => queue.show(id))).flat()
    },
    async drop(filter): Promise<DropReport> {
      checkNamed(filter)
      const reports = await inTurn(queues, queue => queue.drop(filter))
      return {
        dropped: reports.reduce((sum, { dropped }) => sum + dropped, 0),
        missing: missingInAll(reports),
        partial: reports.flatMap(({ partial }) => partial),
      }
    },
  }
}

export function replayOfSeveral(replays: readonly Replay[]): Replay {
  if (replays.length === 1) return replays[0]!
  return async (filter, options): Promise<ReplayReport> => {
    checkNamed(filter)
    const reports = await inTurn(replays, replay => replay(filter, options))
    return {
      replayed: reports.reduce((sum, { replayed }) => sum + replayed, 0),
      left: reports.reduce((sum, { left }) => sum + left, 0),
      reasons: reports.flatMap(({ reasons }) => reasons),
      missing: missingInAll(reports),
    }
  }
}

async function inTurn<Part, Result>(parts: readonly Part[], call: (part: Part) => Promise<Result>): Promise<Result[]> {
  const results: Result[] = []
  for (const part of parts) results.push(await call(part))
  return results
}

function missingInAll([first, ...others]: readonly { readonly missing: readonly string[] }[]): string[] {
  return first!.missing.filter(id => others.every(({ missing }) => missing.includes(id)))
}

/** @throws SystemicError for an id that may mean a message of each topic */
function checkNamed({ ids = [] }: DeadLetterFilter): void {
  const unnamed = ids.find(id => parseMessageId(id)?.log === '')
  if (unnamed !== undefined)
    throw new SystemicError(`the id ${unnamed} does not name its topic: give <topic>-${unnamed}, or the id as ./sluice dlq ls prints it`)
}
