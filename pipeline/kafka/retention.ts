// Reads how long a topic keeps its messages.

import { ConfigResourceTypes } from '@platformatic/kafka'
import type { LogRetention } from '../log.ts'
import { type KafkaConnection, openAdmin } from './connection.ts'

const keys = ['cleanup.policy', 'retention.ms', 'retention.bytes']

/** Undefined if this user may not read it, or no broker answers. */
export async function topicRetention(connection: KafkaConnection, topic: string): Promise<LogRetention | undefined> {
  const admin = await openAdmin(connection)
  try {
    const resource = { resourceType: ConfigResourceTypes.TOPIC, resourceName: topic, configurationKeys: keys }
    const [found] = await admin.describeConfigs({ resources: [resource] })
    const values = new Map(found?.configs.map(({ name, value }) => [name, value ?? '']))
    const policy = values.get('cleanup.policy') ?? ''
    const [keptMs, keptBytes] = policy.includes('delete') ? ['retention.ms', 'retention.bytes'].map(key => limitOf(values.get(key))) : []
    return {
      isCompacted: policy.includes('compact'),
      ...(keptMs === undefined ? {} : { keptMs }),
      ...(keptBytes === undefined ? {} : { keptBytes }),
    }
  } catch {
    return undefined
  } finally {
    await admin.close()
  }
}

/** -1 is no limit. */
function limitOf(value = '-1'): number | undefined {
  return Number(value) < 0 ? undefined : Number(value)
}
