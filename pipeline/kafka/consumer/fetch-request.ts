// Fetch, version 13: the first that names a topic by its id, so that a topic made anew under the same name is never read for the old one.
//
//   request    replicaId int32 · maxWaitMs int32 · minBytes int32 · maxBytes int32 · isolation int8 · sessionId int32 · sessionEpoch int32
//              topics [topicId uuid · partitions [partition int32 · leaderEpoch int32 · fetchOffset int64 · lastFetchedEpoch int32 ·
//              logStartOffset int64 · maxBytes int32]] · forgotten [] · rack string
//   answer     throttleMs int32 · error int16 · sessionId int32 · topics [topicId uuid · partitions [partition int32 · error int16 ·
//              highWatermark int64 · lastStableOffset int64 · logStartOffset int64 · aborted [producerId int64 · firstOffset int64] ·
//              preferredReplica int32 · records bytes]]

import type { AbortedTransaction } from '../aborted-transactions.ts'
import type { WireRequest } from './wire-request.ts'

export const fetchKey = 1
export const fetchVersion = 13

export interface FetchQuestion {
  readonly topicId: string
  /** In the order in which the broker is to fill its answer. */
  readonly partitions: readonly { readonly partition: number; readonly offset: number }[]
  /** How long it waits for a first message. */
  readonly waitMs: number
  /** Of the answer, and of a partition in it; the first batch comes whole even where it is larger. */
  readonly bytesMax: number
  readonly partitionBytesMax: number
}

export interface FetchedPartition {
  readonly partition: number
  /** Kafka's number of it; 0 is none. */
  readonly error: number
  readonly aborted: readonly AbortedTransaction[]
  /** A view into the answer. */
  readonly records: Buffer
}

export interface FetchAnswer {
  readonly error: number
  readonly partitions: readonly FetchedPartition[]
}

const consumer = -1
const readCommitted = 1
const noSession = { id: 0, epoch: -1 }
const unknown = -1
const nothing = Buffer.alloc(0)

export function fetchRequest({ topicId, partitions, waitMs, bytesMax, partitionBytesMax }: FetchQuestion): WireRequest<FetchAnswer> {
  return {
    apiKey: fetchKey,
    apiVersion: fetchVersion,
    // Under this name kafkajs leaves the answer out of its lines.
    apiName: 'Fetch',
    waitMs,
    write(to) {
      to.int32(consumer).int32(waitMs).int32(1).int32(bytesMax).int8(readCommitted).int32(noSession.id).int32(noSession.epoch)
      to.array(1).uuid(topicId).array(partitions.length)
      for (const { partition, offset } of partitions) {
        to.int32(partition).int32(unknown).int64(offset).int32(unknown).int64(unknown).int32(partitionBytesMax).tags()
      }
      return to.tags().array(0).string('')
    },
    read(from) {
      const throttleMs = from.int32()
      const error = from.int16()
      from.int32()
      const topics = from.array(() => {
        from.uuid()
        const found = from.array((): FetchedPartition => {
          const partition = from.int32()
          const error = from.int16()
          // The ends of the partition, which nothing here depends on.
          for (let left = 3; left > 0; left--) from.int64()
          const aborted = from.array(() => {
            const transaction = { producerId: from.int64(), firstOffset: from.int64() }
            from.tags()
            return transaction
          })
          from.int32()
          const records = from.bytes() ?? nothing
          from.tags()
          return { partition, error, aborted, records }
        })
        from.tags()
        return found
      })
      return { throttleMs, error, partitions: topics.flat() }
    },
  }
}
