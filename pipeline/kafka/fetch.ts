// One fetch from one partition, as it goes over the wire (Kafka protocol guide, "Fetch" version 13), with the messages left as bytes.
//
//   request     replica_id int32 = -1 · max_wait_ms int32 · min_bytes int32 = 1 · max_bytes int32 · isolation int8 = 1 (committed)
//               session_id int32 = 0 · session_epoch int32 = -1 · [topic] · [forgotten] · rack string · tags
//   topic       id uuid · [partition] · tags
//   partition   index int32 · leader_epoch int32 = -1 · fetch_offset int64 · last_epoch int32 = -1 · log_start int64 = -1 · max_bytes int32 · tags
//   response    throttle_ms int32 · error int16 · session_id int32 · [topic] · tags
//   topic       id uuid · [partition] · tags
//   partition   index int32 · error int16 · high_watermark int64 · last_stable_offset int64 · log_start_offset int64
//               [aborted: producer_id int64 · first_offset int64 · tags] · preferred_replica int32 · records bytes · tags
//
// Everything is in the compact forms. Version 13 names a topic by its id, so that one made anew is never read for the old one. The
// client's own function would decode the messages, which is done here as a writer does it (record-set.ts).

import type { Connection, Reader, Writer } from '@platformatic/kafka'
import type { AbortedTransaction } from './aborted-transactions.ts'
import type { KafkaClient } from './produce.ts'

export interface FetchOf {
  readonly topicId: string
  readonly partition: number
  readonly offset: number
  /** How long the broker waits for a first message. */
  readonly waitMs: number
  /** Of the answer; its first batch comes whole even where it is larger. */
  readonly bytesMax: number
}

export interface Fetch {
  /** Of the protocol's error codes, of the answer or of the partition; 0 is success. */
  readonly errorCode: number
  readonly aborted: readonly AbortedTransaction[]
  readonly records: Buffer
}

const fetchKey = 1
const fetchVersion = 13
const anyReplica = -1
const readCommitted = 1
const unknown = -1
const nothing = Buffer.alloc(0)

/** @throws what the connection failed with */
export function fetchOnce({ Writer }: KafkaClient, connection: Connection, of: FetchOf): Promise<Fetch> {
  return new Promise((resolve, reject) => {
    connection.send<Fetch>(
      fetchKey,
      fetchVersion,
      () => writeFetch(Writer.create(), of),
      (_correlation, _key, _version, reader) => readFetch(reader),
      true,
      true,
      (error, answer) => (answer === undefined || error !== null ? reject(error ?? new Error('no answer')) : resolve(answer)),
    )
  })
}

function writeFetch(writer: Writer, { topicId, partition, offset, waitMs, bytesMax }: FetchOf): Writer {
  writer.appendInt32(anyReplica).appendInt32(waitMs).appendInt32(1).appendInt32(bytesMax).appendInt8(readCommitted)
  writer.appendInt32(0).appendInt32(unknown)
  writer.appendArray([topicId], (to, id) => {
    to.appendUUID(id).appendArray([partition], (to, index) => {
      to.appendInt32(index).appendInt32(unknown).appendInt64(BigInt(offset)).appendInt32(unknown).appendInt64(-1n).appendInt32(bytesMax)
    })
  })
  return writer
    .appendArray([], () => undefined)
    .appendString('')
    .appendTaggedFields()
}

function readFetch(reader: Reader): Fetch {
  reader.skip(4)
  const errorCode = reader.readInt16()
  reader.skip(4)
  const topics = reader.readArray(inTopic => {
    inTopic.skip(16)
    return inTopic.readArray(readPartition)
  })
  reader.readTaggedFields()
  const found = topics[0]?.[0] ?? { errorCode, aborted: [], records: nothing }
  return errorCode === 0 ? found : { ...found, errorCode }
}

function readPartition(reader: Reader): Fetch {
  reader.skip(4)
  const errorCode = reader.readInt16()
  reader.skip(24)
  const aborted = reader.readNullableArray(inTransaction => {
    const producerId = Number(inTransaction.readInt64())
    return { producerId, firstOffset: Number(inTransaction.readInt64()) }
  })
  reader.skip(4)
  return { errorCode, aborted: aborted ?? [], records: reader.readNullableBytes() ?? nothing }
}
