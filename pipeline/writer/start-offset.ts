// Where a source resumes in one partition of its log: decided by the store and the log, never guessed.

import { named } from '../../config/options/variable.ts'
import { SystemicError } from '../systemic-error.ts'

export interface StartRequest {
  /** The topic, for error messages. */
  readonly log: string
  readonly partition: number
  /** The store's position; undefined if it does not know the partition. */
  readonly stored: number | undefined
  /** The log's committed offset of this consumer; undefined if there is none, or if the store keeps positions itself. */
  readonly committed: number | undefined
  /** The first offset that the log still has. */
  readonly start: number
  /** The offset of the next message. */
  readonly end: number
  /** Continue although messages were deleted unread. */
  readonly acceptLost: boolean
}

export interface StartAnswer {
  /** Where the store resumes: the `from` of the first chunk. */
  readonly from: number
  /** Where reading begins; above `from` if messages are lost. */
  readonly next: number
  /** How many messages the log deleted unread. */
  readonly lost: number
}

/**
 * The store's position, otherwise the committed offset, otherwise the log's start. Offsets are never reset automatically: a position that the log
 * does not have is an error, since continuing would leave a gap or store messages twice.
 *
 * @throws SystemicError if the log ends below the position, or starts above it and `acceptLost` is false
 */
export function startOffset({ log, partition, stored, committed, start, end, acceptLost }: StartRequest): StartAnswer {
  const from = stored ?? committed ?? start
  const asker = stored === undefined ? 'the committed offset' : 'the store'
  const where = `partition ${partition} of the log ${log}`
  if (end < from) {
    throw new SystemicError(
      `${where} ends at offset ${end}, but ${asker} continues at ${from}: the log was truncated or recreated. Restore the log that belongs to this store, or use an empty store`,
    )
  }
  if (start <= from) return { from, next: from, lost: 0 }
  const lost = start - from
  if (!acceptLost) {
    throw new SystemicError(
      `${where} starts at offset ${start}, but ${asker} continues at ${from}: ${lost} messages were deleted unread. Restore them, or continue without them with ${named('log.accept_lost')}`,
    )
  }
  return { from, next: start, lost }
}
