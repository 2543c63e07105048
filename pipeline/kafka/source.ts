// The source on Kafka by either client, which is loaded when it first connects: who uses one does not load the other.

import type { Source } from '../source.ts'
import type { KafkaConnection } from './connection.ts'
import type { ConnectBroker } from './consumer/broker.ts'
import { type ConsumerSettings, openConsumer } from './consumer/source.ts'
import type { KafkaSourceOptions } from './options.ts'

export interface KafkaSourceSettings extends Omit<ConsumerSettings, 'brokers' | 'connectBroker'> {
  readonly client: KafkaSourceOptions['client']
  readonly connection: KafkaConnection
}

/**
 * Connects when it is first used, and joins the group when it is first asked for runs or told to commit. With more workers in the group than
 * the topic has partitions, its runs wait for a share of their own. Sources of both clients may be in one group.
 *
 * @throws SystemicError for options that do not fit together
 */
export function openKafkaSource({ client, connection, ...settings }: KafkaSourceSettings): Source {
  let loaded: Promise<ConnectBroker> | undefined
  async function load(): Promise<ConnectBroker> {
    if (client === 'kafkajs') {
      const { connectWithKafkajs } = await import('./kafkajs/broker.ts')
      return connectWithKafkajs(connection, settings.logger)
    }
    const { connectWithPlatformatic } = await import('./platformatic/broker.ts')
    return connectWithPlatformatic(connection)
  }
  return openConsumer({
    ...settings,
    brokers: connection.brokers,
    async connectBroker(address) {
      loaded ??= load()
      return (await loaded)(address)
    },
  })
}
