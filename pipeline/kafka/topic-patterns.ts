// Which topics a writer reads: the names and patterns of `log.topics`, or the one of `log.topic`; and in which consumer group.

import { named } from '../../config/options/variable.ts'
import { logsMax } from '../../transformers/log-partition.ts'
import { SystemicError } from '../systemic-error.ts'

export interface TopicOptions {
  readonly topic?: string | undefined
  readonly topics?: readonly string[] | undefined
}

export const defaultTopic = 'messages'

/** Names, and patterns that begin with `^`. */
export function wantedTopics({ topic = defaultTopic, topics = [topic] }: TopicOptions): readonly string[] {
  return topics
}

export function isPattern(wanted: string): boolean {
  return wanted.startsWith('^')
}

/**
 * The consumer group of a writer, under which Kafka keeps its offsets. By default it says the topic too: writers of different topics are members of
 * different groups.
 *
 * @param store `relational`
 * @param group `log.group`
 */
export function consumerGroup(store: string, topic: string, group: string | undefined): string {
  return group ?? `${store}.${topic}`
}

/** The fault of a writer of several topics without `log.group`: a group named after them would change with them, and begin again. */
export function groupFault({ group, ...options }: TopicOptions & { readonly group?: string | undefined }): string | undefined {
  const wanted = wantedTopics(options)
  if (group !== undefined || (wanted.length === 1 && !isPattern(wanted[0]!))) return undefined
  return 'a writer of several topics, or of a pattern, needs a name, under which Kafka keeps its offsets also when topics are added: set SVC_LOG_GROUP'
}

/** Of Kafka and its tools, and Sluice's dead letters, and sessions and retained messages of MQTT: no pattern matches them. */
const internal = /^__|^_schemas$|\.dead-letters\.|\.mqtt-(sessions|retained)$/

/**
 * The names among the wanted ones, and the existing topics that match a pattern, sorted.
 *
 * @throws SystemicError if there are more than a store has numbers for
 */
export function matchingTopics(wanted: readonly string[], existing: readonly string[]): string[] {
  const matches = new Map(wanted.map(one => [one, isPattern(one) ? matchesOf(one, existing) : [one]]))
  const names = new Set([...matches.values()].flat())
  if (names.size > logsMax) {
    const [most, found] = [...matches].reduce((one, other) => (other[1].length > one[1].length ? other : one))
    throw new SystemicError(
      `${named('log.topics')} selects ${names.size} topics, of which ${most} matches ${found.length}, but a writer reads at most ${logsMax}: narrow the pattern, or divide the topics among several writers`,
    )
  }
  return [...names].sort()
}

function matchesOf(pattern: string, existing: readonly string[]): string[] {
  const expression = new RegExp(pattern)
  return existing.filter(name => !internal.test(name) && expression.test(name))
}

const namedMax = 3

/** `the topic plant`, or `the topics hall, plant and 5 more`. */
export function topicsText(names: readonly string[]): string {
  if (names.length === 1) return `the topic ${names[0]}`
  const more = names.length - namedMax
  return `the topics ${names.slice(0, namedMax).join(', ')}${more > 0 ? ` and ${more} more` : ''}`
}

/** The fault of a pattern that is not a regular expression, worded to follow its name; else undefined. */
export function patternFault(wanted: string): string | undefined {
  if (!isPattern(wanted)) return undefined
  try {
    RegExp(wanted)
    return undefined
  } catch (error) {
    return `${wanted} is not a regular expression (${(error as Error).message})`
  }
}
