// What a partition stops with where its bytes are not what a broker would have taken: skipping them would lose messages in silence.

import { SystemicError } from '../systemic-error.ts'

/** Where a batch lies in the log. */
export interface BatchPlace {
  readonly topic: string
  readonly partition: number
  /** The batch's first offset, or the one that was asked for where it cannot be read. */
  readonly offset: number
}

/** @param fault what is wrong with the batch: `its checksum is 1, not 2` */
export function corruptBatch({ topic, partition, offset }: BatchPlace, fault: string, cause?: unknown): SystemicError {
  return new SystemicError(
    `topic ${topic}, partition ${partition}: the batch at offset ${offset} is corrupt: ${fault}; see what kafka-dump-log says of it, and restore the partition from a good replica`,
    cause === undefined ? undefined : { cause },
  )
}

/** @param fault what the batch is or asks for: `it is compressed by codec 5, which is unknown: …` */
export function refusedBatch({ topic, partition, offset }: BatchPlace, fault: string): SystemicError {
  return new SystemicError(`topic ${topic}, partition ${partition}: the batch at offset ${offset} cannot be read: ${fault}`)
}
