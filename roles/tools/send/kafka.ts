// Writes what `send` reads into a topic.

import { envelopeHeaders } from '../../../pipeline/envelope-headers.ts'
import { partitionOf } from '../../../pipeline/kafka/producer/partitioner.ts'
import { type ConnectionFlags, kafkajsFailure, openTopicClient } from '../kafkajs.ts'
import type { Sources } from '../target/flags.ts'
import type { Destination } from './destination.ts'
import type { InputMessage } from './input.ts'

/** @throws OptionsError, SecretError, SystemicError, LogUnavailableError */
export async function openKafkaDestination(flags: ConnectionFlags, sources: Sources): Promise<Destination> {
  const { kafka, topic, bounds, options, connection } = await openTopicClient(flags, sources)
  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1, allowAutoTopicCreation: false })
  try {
    await producer.connect()
  } catch (error) {
    await producer.disconnect()
    throw kafkajsFailure(error, 'messages cannot be sent')
  }
  return {
    name: topic,
    messagesMax: 1000,
    payloadBytesMax: options.message.payloadBytes,
    /** Sends the messages of one partition at a time: kafkajs would repeat what it sent to one broker when another one fails. */
    async send(portion, acknowledged) {
      for (const [partition, messages] of Map.groupBy(portion, message => partitionOf(Buffer.from(message.channel), bounds.size))) {
        const request = { topic, acks: -1, timeout: connection.requestTimeoutMs, messages: messages.map(one => recordOf(one, partition)) }
        await producer.send(request).catch((error: unknown) => {
          const uncertain = `the next ${messages.length} may or may not be in the topic`
          throw kafkajsFailure(error, `no acknowledgement of the brokers: ${uncertain}`)
        })
        acknowledged(messages.length)
      }
    },
    close: () => producer.disconnect(),
  }
}

function recordOf({ payload, channel, subtopic, publisher, contentType }: InputMessage, partition: number) {
  const createdUs = Date.now() * 1000
  const envelope = { channel, subtopic, publisher, protocol: 'kafka', contentType, createdUs, createdRestNs: 0 }
  const headers = Object.fromEntries(envelopeHeaders(envelope).map(({ key, value }) => [key, value as string]))
  return { partition, key: channel, value: Buffer.from(payload.buffer, payload.byteOffset, payload.length), headers }
}
