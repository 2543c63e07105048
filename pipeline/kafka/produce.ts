// The two requests of a producer, as they go over the wire (Kafka protocol guide, "Produce" version 7 and "InitProducerId" version 0).
//
//   request     transactional_id nullable string = null · acks int16 = -1 · timeout_ms int32 · [topic]
//   topic       name string · [partition]                     partition   index int32 · record batch bytes
//   response    [topic] · throttle_time_ms int32
//   topic       name string · [partition]                     partition   index int32 · error_code int16 · base_offset int64
//                                                                         log_append_time_ms int64 · log_start_offset int64
//
// Arrays and bytes have an int32 as their length, strings an int16. Version 7 is known to brokers from 2.1 to 4, and what later ones
// add is not used here. The client's own function would encode the batch again, and makes one error of all partitions' answers.

import type * as client from '@platformatic/kafka'
import type { Connection, Reader, Writer } from '@platformatic/kafka'

/** What a broker answered for one partition. */
export interface Produced {
  readonly partition: number
  /** Of the protocol's error codes; 0 is success. */
  readonly errorCode: number
  /** Of the batch's first record. */
  readonly baseOffset: number
}

/** A batch as `encodeBatch` makes it. */
export interface BatchToProduce {
  readonly partition: number
  readonly bytes: Buffer
}

const produceKey = 0
const produceVersion = 7
const acksAll = -1

/** The client, which is loaded when a log is opened. */
export type KafkaClient = typeof client

/**
 * Sends batches of different partitions to their leader. Resolves with the answer for each that it answered.
 *
 * @param ackTimeoutMs after which the leader gives up waiting for its replicas
 * @throws what the connection failed with: nothing is known then
 */
export function produce(
  { Writer }: KafkaClient,
  connection: Connection,
  topic: string,
  batches: readonly BatchToProduce[],
  ackTimeoutMs: number,
): Promise<Produced[]> {
  return new Promise((resolve, reject) => {
    connection.send<Produced[]>(
      produceKey,
      produceVersion,
      () => writeProduce(Writer.create(), topic, batches, ackTimeoutMs),
      (_correlation, _key, _version, reader) => readProduced(reader),
      false,
      false,
      (error, answer) => (answer === undefined || error !== null ? reject(error ?? new Error('no answer')) : resolve(answer)),
    )
  })
}

function writeProduce(writer: Writer, topic: string, batches: readonly BatchToProduce[], ackTimeoutMs: number): Writer {
  writer.appendString(null, false).appendInt16(acksAll).appendInt32(ackTimeoutMs)
  writer.appendInt32(1).appendString(topic, false).appendInt32(batches.length)
  for (const { partition, bytes } of batches) writer.appendInt32(partition).appendInt32(bytes.length).append(bytes)
  return writer
}

function readProduced(reader: Reader): Produced[] {
  const produced: Produced[] = []
  for (let topics = reader.readInt32(); topics > 0; topics--) {
    reader.readString(false)
    for (let partitions = reader.readInt32(); partitions > 0; partitions--) {
      const partition = reader.readInt32()
      const errorCode = reader.readInt16()
      const baseOffset = Number(reader.readInt64())
      produced.push({ partition, errorCode, baseOffset })
      reader.skip(16)
    }
  }
  return produced
}

/** A producer id that nobody had before. */
export async function newProducerId({ initProducerIdV0 }: KafkaClient, connection: Connection): Promise<bigint> {
  const { producerId } = await initProducerIdV0.api.async(connection, null, 0)
  return producerId
}
