// Access to a running broker for a test: its addresses, its topics, and Kafka's own tools.

import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { promisify } from 'node:util'
import type { Admin } from '@platformatic/kafka'

const run = promisify(execFile)

/** The broker's addresses for clients: lists of `127.0.0.1:<port>`. Plain data, which can be sent to another process. */
export interface KafkaAddress {
  /** Without encryption and authentication. */
  readonly brokers: readonly string[]
  /** The other listeners. */
  readonly secured: {
    readonly tls: readonly string[]
    /** SASL with PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512, not encrypted. */
    readonly sasl: readonly string[]
    readonly saslTls: readonly string[]
    /** The certificate to trust, as PEM. */
    readonly certificate: string
    readonly username: string
    readonly password: string
  }
  /** Java's class path, for the tools. */
  readonly classPath: string
}

export interface TopicOptions {
  /** Random by default. */
  name?: string
  /** 1 by default. */
  partitions?: number
  /** `{ 'cleanup.policy': 'compact' }`. */
  config?: Readonly<Record<string, string>>
}

export interface KafkaAccess extends KafkaAddress {
  /** Creates a topic that clients find immediately; resolves with its name. */
  createTopic(options?: TopicOptions): Promise<string>
  deleteTopic(name: string): Promise<void>
  /**
   * Runs one of Kafka's own tools, as in `tool('ProducerPerformance', ['--topic', …, '--bootstrap-server', kafka.brokers[0]])`, and
   * resolves with its output.
   *
   * @throws Error with its last output if it fails
   */
  tool(name: string, options: readonly string[]): Promise<string>
}

export function accessTo(address: KafkaAddress): KafkaAccess {
  const { brokers, classPath } = address
  return {
    ...address,
    createTopic: async ({ name = `test-${randomBytes(6).toString('hex')}`, partitions = 1, config = {} } = {}) => {
      const configs = Object.entries(config).map(([key, value]) => ({ name: key, value }))
      await withAdmin(brokers, async admin => {
        await admin.createTopics({ topics: [name], partitions, replicas: 1, configs })
        // The broker learns of it shortly after the controller's answer; this polls until then.
        await admin.metadata({ topics: [name], forceUpdate: true })
      })
      return name
    },
    deleteTopic: name => withAdmin(brokers, admin => admin.deleteTopics({ topics: [name] })),
    tool: async (name, options) => {
      const flags = ['-Xmx512m', '-Dorg.slf4j.simpleLogger.defaultLogLevel=warn', '-cp', classPath]
      const { stdout } = await run('java', [...flags, `org.apache.kafka.tools.${name}`, ...options], { maxBuffer: 1 << 26 })
      return stdout
    },
  }
}

async function withAdmin(brokers: readonly string[], work: (admin: Admin) => Promise<void>): Promise<void> {
  const { Admin: open } = await import('@platformatic/kafka')
  const admin = new open({ clientId: 'tests', bootstrapBrokers: [...brokers], retries: 20, retryDelay: 100 })
  try {
    await work(admin)
  } finally {
    await admin.close()
  }
}
