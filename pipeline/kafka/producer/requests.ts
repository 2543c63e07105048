// Encodes the two requests of a producer (Kafka protocol guide, "Produce" version 7 and "InitProducerId" version 0).
//
//   request     transactional_id nullable string = null · acks int16 = -1 · timeout_ms int32 · [topic]
//   topic       name string · [partition]                     partition   index int32 · record batch bytes
//   response    [topic] · throttle_time_ms int32
//   topic       name string · [partition]                     partition   index int32 · error_code int16 · base_offset int64
//                                                                         log_append_time_ms int64 · log_start_offset int64
//
// Arrays and bytes have an int32 length, strings an int16. Brokers from 2.1 to 4 support version 7, and nothing that later
// versions add is needed. The client's own functions would encode the batch again, and would fail the whole answer if any partition has an
// error, including unknown codes.

import { type Connection, createAPI, initProducerIdV0, type Reader, Writer } from '@platformatic/kafka'

/** A broker's answer for one partition. */
export interface Produced {
  readonly partition: number
  /** Error code of the protocol; 0 for success. */
  readonly errorCode: number
  /** Offset of the batch's first record. */
  readonly baseOffset: number
}

/** A batch encoded by `encodeBatch`. */
export interface BatchToProduce {
  readonly partition: number
  readonly bytes: Buffer
}

const produceKey = 0
const produceVersion = 7
const acksAll = -1

/**
 * Sends batches of different partitions to their leader. Resolves with its answers per partition, which may be incomplete.
 *
 * @param ackTimeoutMs how long the leader waits for its replicas
 * @throws the error of the connection; the outcome is then unknown
 */
export function produce(
  connection: Connection,
  topic: string,
  batches: readonly BatchToProduce[],
  ackTimeoutMs: number,
): Promise<Produced[]> {
  const write = (): Writer => writeProduce(Writer.create(), topic, batches, ackTimeoutMs)
  const read = (_id: number, _key: number, _version: number, reader: Reader): Produced[] => readProduced(reader)
  return createAPI<[], Produced[]>(produceKey, produceVersion, write, read, false, false).async(connection)
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

/** Requests a new, unique producer id. */
export async function newProducerId(connection: Connection): Promise<bigint> {
  const { producerId } = await initProducerIdV0.api.async(connection, null, 0)
  return producerId
}
