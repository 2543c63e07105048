// Decodes one message at a time, as a writer does, for whoever follows its channel.

import { initialRoom, RecordBatch } from '../../transformers/record-batch.ts'
import { type DecoderOptions, openDecoder } from '../decode.ts'
import type { RawMessage } from '../source.ts'
import type { LiveMessage } from './messages.ts'

export interface Decoding {
  /** @returns undefined where there is nothing to give out: it is empty, undecodable, or not subscribed to. It is of use until the next call. */
  decode(message: RawMessage, partition: number): LiveMessage | undefined
}

/** A batch that one large message made so much larger is not kept. */
const roomMax = initialRoom * 8

export function openDecoding(options: DecoderOptions): Decoding {
  const decoder = openDecoder(options)
  let batch = new RecordBatch()
  return {
    decode(message, partition) {
      if (batch.room > roomMax) batch = new RecordBatch()
      else batch.clear()
      const rejection = decoder.decode(message, partition, batch)
      // Its dead letter is the writer's to write.
      if (rejection !== undefined || batch.rowCount === 0) return undefined
      return { batch, partition, offset: message.offset }
    },
  }
}
