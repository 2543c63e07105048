// The latest state of each dead-lettered message, from one pass over the dead-letter topic of a writer. Reading continues where it stopped.

import type { LogPosition } from '../log.ts'
import type { MessageId } from '../message-id.ts'
import type { TopicBounds, TopicReader } from '../topic-reader.ts'
import { parseAt, type Resolved } from './parse.ts'

/** Open: the writer has dead-lettered the message, and the letter was not resolved since. */
export type DeadLetterState = 'open' | Resolved

/** What the dead letters of a message say. */
export interface DeadLettered {
  readonly state: DeadLetterState
  /** Position of the last letter: see `positionKey`. */
  readonly position: number
  /**
   * Whether any letter ever said that the store may have some rows. After a crash the message may be rejected for another reason, with a letter that
   * does not say so, but the rows are still there.
   */
  readonly partial: boolean
}

export interface DeadLetterIndex {
  /** Reads what was written since the last call has ended. @throws LogUnavailableError, SystemicError; the next call continues there */
  readOn(): Promise<void>
  /** Bounds of the dead-letter topic, as far as it was read. */
  bounds(): ReadonlyMap<number, TopicBounds>
  /** Of one partition of a log, by offset. */
  of(log: number, partition: number): ReadonlyMap<number, DeadLettered>
  /** The numbers of the logs that have a letter with this id, ascending: an id without a log number may match several. */
  logsOf(id: MessageId): number[]
  /** How many messages are open. */
  openByRule(): Readonly<Record<string, number>>
}

interface Rule {
  readonly name: string
  open: number
}

interface Message extends DeadLettered {
  state: DeadLetterState
  /** Of the last letter. */
  readonly rule: Rule
}

/** One partition of a log. */
interface Partition {
  readonly log: number
  readonly partition: number
  /** The name of the log. */
  topic: string
  readonly messages: Map<number, Message>
}

/**
 * Has read nothing yet. Skips a resolution without a letter, which occurs only if the start of the topic was deleted.
 *
 * @param topicId skips letters of a topic with another id: numbers of logs are used again
 * @param keepsResolved without resolved messages it takes about 150 bytes of memory for each open one
 */
export function openDeadLetterIndex(reader: TopicReader, topicId?: string, { keepsResolved = true } = {}): DeadLetterIndex {
  let bounds: ReadonlyMap<number, TopicBounds> = new Map()
  const next = new Map<number, number>()
  const byPartition = new Map<number, Partition>()
  const rules = new Map<string, Rule>()

  function partitionOf(log: number, partition: number): Partition {
    const key = log * 4096 + partition
    let found = byPartition.get(key)
    if (found === undefined) byPartition.set(key, (found = { log, partition, topic: '', messages: new Map() }))
    return found
  }

  function ruleOf(name: string): Rule {
    let rule = rules.get(name)
    if (rule === undefined) rules.set(name, (rule = { name, open: 0 }))
    return rule
  }

  return {
    async readOn() {
      bounds = await reader.bounds()
      for (const [partition, { start, end }] of bounds) {
        for await (const chunk of reader.read(partition, Math.max(start, next.get(partition) ?? start), end)) {
          const cursor = chunk.cursor()
          while (cursor.next()) {
            const parsed = parseAt(cursor)
            if (parsed === undefined || (parsed.kind === 'letter' && topicId !== undefined && parsed.logId !== topicId)) continue
            const { log, partition: of, offset } = parsed.original
            const found = partitionOf(log, of)
            const known = found.messages.get(offset)
            if (parsed.kind === 'resolution' && (known === undefined || !resolves(parsed.deadLetter, known.position))) continue
            if (known?.state === 'open') known.rule.open--
            if (parsed.kind === 'letter') {
              const [rule, position] = [ruleOf(parsed.rule), positionKey(partition, cursor.message.offset)]
              rule.open++
              found.topic = parsed.topic
              found.messages.set(offset, { state: 'open', position, partial: parsed.partial || known?.partial === true, rule })
            } else if (keepsResolved) known!.state = parsed.resolved
            else found.messages.delete(offset)
          }
          next.set(partition, chunk.to)
        }
      }
    },
    bounds: () => bounds,
    of: (log, partition) => partitionOf(log, partition).messages,
    logsOf: ({ log, partition, offset }) =>
      [...byPartition.values()]
        .filter(found => found.partition === partition && found.messages.has(offset))
        .filter(found => log === '' || log === String(found.log) || log === found.topic)
        .map(found => found.log)
        .sort((one, other) => one - other),
    openByRule: () => Object.fromEntries([...rules.values()].filter(({ open }) => open > 0).map(({ name, open }) => [name, open])),
  }
}

/** Allows 2^12 partitions with 2^41 letters each. */
export function positionKey(partition: number, offset: number): number {
  return offset * 4096 + partition
}

/** A letter written while an older one was being resolved comes after the position in the resolution: it stays open. */
function resolves(deadLetter: LogPosition, position: number): boolean {
  return position % 4096 === deadLetter.partition && position <= positionKey(deadLetter.partition, deadLetter.offset)
}
