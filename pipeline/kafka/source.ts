// Opens the Kafka source with the connection options of the section `log`.

import type { Source } from '../source.ts'
import { connectBrokers } from './client/broker.ts'
import type { KafkaConnection } from './connection.ts'
import { type ConsumerSettings, openConsumer } from './consumer/source.ts'

export interface KafkaSourceSettings extends Omit<ConsumerSettings, 'brokers' | 'connectBroker'> {
  readonly connection: KafkaConnection
}

/**
 * Connects on first use, and joins the group at the first call of chunks or commit. If the group has more workers than
 * the topic has partitions, chunks wait until this worker gets a share.
 *
 * @throws SystemicError for invalid combinations of options
 */
export function openKafkaSource({ connection, ...settings }: KafkaSourceSettings): Source {
  return openConsumer({ ...settings, brokers: connection.brokers, connectBroker: connectBrokers(connection) })
}
