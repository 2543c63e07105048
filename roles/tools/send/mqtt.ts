// Publishes what `send` reads over MQTT.

import { openMqttClient } from '../../../bin/mqtt-client.ts'
import { ToolError } from '../../../bin/streams.ts'
import type { Destination } from './destination.ts'

interface MqttFlags {
  readonly url: string
  readonly key: string
  /** The id of the thing, or empty. */
  readonly publisher: string
}

/** A server may take 65,535 messages at once. */
const messagesMax = 1000
/** Where a server does not say what it takes. */
const payloadBytesMax = 2 ** 20

/** @throws ToolError */
export async function openMqttDestination({ url, key, publisher }: MqttFlags): Promise<Destination> {
  if (key === '') throw new ToolError('--mqtt needs the key of the publishing thing: give it with SVC_THING_KEY or --key')
  const client = await openMqttClient({ url, key, thing: publisher })
  return {
    name: url,
    messagesMax: Math.min(messagesMax, client.inFlightMax),
    payloadBytesMax: client.packetBytesMax ?? payloadBytesMax,
    async send(messages, acknowledged) {
      const other = messages.find(message => message.publisher !== publisher)
      if (other !== undefined) {
        throw new ToolError(`a message is of the publisher "${other.publisher}": over MQTT all are of the thing whose key is given`)
      }
      const answers = messages.map(async ({ channel, subtopic, payload, contentType }) => {
        const topic = ['channels', channel, 'messages', ...(subtopic === '' ? [] : subtopic.split('.'))].join('/')
        await client.publish(topic, payload, contentType)
        acknowledged(1)
      })
      // All, so that those that were acknowledged are counted.
      const refused = (await Promise.allSettled(answers)).find(({ status }) => status === 'rejected')
      if (refused?.status === 'rejected') throw refused.reason
    },
    close: () => client.close(),
  }
}
