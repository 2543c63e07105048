// The order of test files: the longest first, so that at the end none runs alone.

import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** Each takes about half a minute or more. Measured times are only known to later runs, and a clean checkout has none. */
const longest = [
  'writer/kills-of-stores',
  'control-plane/plans',
  'writer/outages',
  'roles/tools/kafka',
  'readers/influxdb/reader',
  'up/secrets',
  'writer/replay-kills',
  'writer/kills',
  'up/first-message',
  'sinks/influxdb/server',
  'pipeline/kafka/consumer/source-faults',
  'database/damage',
  'control-plane/isolation',
  'sinks/cassandra/server',
  'pipeline/kafka/consumer/source-brokers',
  'pipeline/kafka/consumer/source-rebalance',
  'pipeline/kafka/failover',
  'writer/metrics',
  'writer/stops',
  'writer/joins',
  'writer/poison',
  'database/embedded',
  'roles/outages',
  'readers/influxdb/requests',
  'up/power-cut',
  'up/live',
]

export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification): number => {
      const found = longest.findIndex(name => moduleId.includes(`/test/${name}.`))
      return found === -1 ? longest.length : found
    }
    return (await super.sort(files)).toSorted((one, other) => rank(one) - rank(other))
  }
}
