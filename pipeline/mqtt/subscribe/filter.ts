// The topic filter of a subscription: one channel, and the levels of the subtopic (MQTT 5 §4.7).

import { noChannel, parseChannel } from '../../../control-plane/client.ts'
import { splitTopic, topicBytesMax } from '../../ingest/mqtt-topic.ts'
import { subtopicLimits } from '../../ingest/subtopic.ts'
import { ReasonError, reasons } from '../reasons.ts'

export interface TopicFilter {
  /** Whether it begins with `$share/<name>/`. */
  readonly isShared: boolean
  readonly channel: string
  /** Of the subtopic. `+` stands for one level, `#` at the end for any number. */
  readonly levels: readonly string[]
}

/** The filter is refused, in the SUBACK (MQTT 5 §3.9.3); the message is for the subscriber. */
export class FilterError extends ReasonError {
  override readonly name = 'FilterError'
}

const form = 'channels/<channel>/messages, with levels of the subtopic, + and # below it'
const shared = /^\$share\/[^/+#?]+\/(.*)$/s
/** Levels of a subtopic are separated by `.` as well. */
const separator = /[/.]/

/**
 * `channels/<channel>/messages[/<level>/…]`, maybe behind `$share/<name>/`
 *
 * @returns `noChannel` as channel for an id that no channel has, which is refused with the rights
 * @throws FilterError
 */
export function parseFilter(whole: string): TopicFilter {
  if (Buffer.byteLength(whole) > topicBytesMax) throw invalid(`a filter has more than ${topicBytesMax} bytes`)
  const [, within] = shared.exec(whole) ?? []
  if (within === undefined && /^\$share(?:\/|$)/.test(whole)) {
    throw invalid('a shared filter is $share/<name>/<filter>, where the name is not empty and has no +, # and ?')
  }
  const text = within ?? whole
  if (/^\/?(?:[+#](?:[/?]|$)|channels\/[^/?]*[+#])/.test(text)) {
    throw new FilterError(reasons.notAuthorized, `a filter names one channel, and has wildcards only below it: subscribe to ${form}`)
  }
  const split = splitTopic(text)
  if (split === undefined) throw invalid(`the filter is not ${form}`)
  const below = split.below.split('/')
  if (below.some((level, at) => /[+#]/.test(level) && level !== '+' && !(level === '#' && at === below.length - 1))) {
    throw invalid('+ stands alone between two /, and # alone at the end')
  }
  const levels = below.flatMap(level => level.split(separator).filter(part => part !== ''))
  if (levels.length > subtopicLimits.parts + 1) throw invalid(`a filter has more than ${subtopicLimits.parts} levels of the subtopic`)
  return { isShared: within !== undefined, channel: parseChannel(split.channel) ?? noChannel, levels }
}

function invalid(sentence: string): FilterError {
  return new FilterError(reasons.topicFilterInvalid, sentence)
}

/** @param parts of a subtopic; none for an empty one */
export function matches(levels: readonly string[], parts: readonly string[]): boolean {
  for (const [at, level] of levels.entries()) {
    // It stands for no level as well (MQTT 5 §4.7.1.2).
    if (level === '#') return true
    if (at >= parts.length || (level !== '+' && level !== parts[at])) return false
  }
  return levels.length === parts.length
}
