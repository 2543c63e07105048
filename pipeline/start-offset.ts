// Where a source goes on in one partition of its log: by what the store and the log say, never by a guess.

import { named } from '../config/option-variable.ts'
import { SystemicError } from './systemic-error.ts'

export interface StartQuestion {
  /** The topic, for messages. */
  readonly log: string
  readonly partition: number
  /** Where the store says to go on; undefined where it does not know the partition. */
  readonly stored: number | undefined
  /** The log's committed offset of this consumer; undefined where there is none, or where the store keeps positions itself. */
  readonly committed: number | undefined
  /** The first offset that is still in the log. */
  readonly start: number
  /** The offset that the next message will get. */
  readonly end: number
  /** Go on although messages were deleted unread. */
  readonly acceptLost: boolean
}

export interface StartAnswer {
  /** Where the store goes on: the `from` of the first run. */
  readonly from: number
  /** Where reading begins; above `from` where messages are lost. */
  readonly next: number
  /** How many messages the log deleted unread. */
  readonly lost: number
}

/**
 * The store's position, else the committed offset, else the log's start. There is no automatic reset: a position that the log
 * does not hold is an error, since going on would leave a hole or store messages twice.
 *
 * @throws SystemicError when the log ends below the position, or starts above it and `acceptLost` is false
 */
export function startOffset({ log, partition, stored, committed, start, end, acceptLost }: StartQuestion): StartAnswer {
  const from = stored ?? committed ?? start
  const asker = stored === undefined ? 'the committed offset' : 'the store'
  const where = `partition ${partition} of the log ${log}`
  if (end < from) {
    throw new SystemicError(
      `${where} ends at offset ${end}, but ${asker} goes on at ${from}: the log was truncated or made anew. Bring back the log that belongs to this store, or use an empty store`,
    )
  }
  if (start <= from) return { from, next: from, lost: 0 }
  const lost = start - from
  if (!acceptLost) {
    throw new SystemicError(
      `${where} starts at offset ${start}, but ${asker} goes on at ${from}: ${lost} messages were deleted unread. Bring them back, or go on without them by ${named('log.accept_lost')}`,
    )
  }
  return { from, next: start, lost }
}
