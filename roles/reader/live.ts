// Live streams of a reader process: the messages of a channel as they arrive in Kafka, in addition to those in its store.

import type { FastifyPluginAsync } from 'fastify'
import { type Static, Type } from 'typebox'
import type { Logger } from '../../config/logger.ts'
import type { OptionFault } from '../../config/options/options.ts'
import type { OutageReport } from '../../config/outage.ts'
import { deriveKey } from '../../config/secrets.ts'
import type { AccessControl } from '../../control-plane/client.ts'
import { envelopeOptions } from '../../pipeline/envelope/options.ts'
import { kafkaFaults, kafkaLogOptions, topicsProperties } from '../../pipeline/kafka/options.ts'
import { type OpenLiveMessages, openLiveMessages } from '../../pipeline/live/live.ts'
import { messageOptions, subscriberOptions } from '../../pipeline/options.ts'
import { transformerOptions } from '../../pipeline/transformer-options.ts'
import { subjectFilter } from '../../pipeline/writer/subject-filter.ts'
import { liveOptions } from '../../readers/live/options.ts'
import { type LiveMetrics, liveRoutes } from '../../readers/live/routes.ts'
import { configuredTransformer } from '../../transformers/select.ts'

/** Options for creating the topic and for queued appends concern only processes that write to the log. */
const {
  partitions: _partitions,
  replicationFactor: _replication,
  queueBytes: _queue,
  appendTimeoutMs: _append,
  topic: _topic,
  ...log
} = kafkaLogOptions.properties

/** The options sections for live streams; those for decoding must match the writers'. */
export const readerLiveSections = {
  live: Type.Object({
    enabled: Type.Boolean({
      default: false,
      description: 'Serve live streams, from the log of the section `log`.',
    }),
    ...liveOptions.properties,
  }),
  log: Type.Object({ ...log, ...topicsProperties }),
  envelope: envelopeOptions,
  subscriber: subscriberOptions,
  transformer: transformerOptions,
  message: messageOptions,
} as const

const sections = Type.Object(readerLiveSections)
export type ReaderLiveOptions = Static<typeof sections>

/** Faults between options. Without live streams there are none. */
export function readerLiveFaults({ live, log, subscriber }: ReaderLiveOptions, env: 'development' | 'production'): OptionFault[] {
  if (!live.enabled) return []
  const faults = kafkaFaults({ ...log, partitions: 1, replicationFactor: 0, queueBytes: 0, appendTimeoutMs: log.requestTimeoutMs }, env)
  try {
    subjectFilter(subscriber.subjects)
  } catch (error) {
    faults.push({ place: 'subscriber.subjects', problem: (error as RangeError).message })
  }
  return faults
}

export interface ReaderLiveParts {
  readonly access: AccessControl
  /** 32 bytes, the same in every reader: the cursor key. A separate key is derived from it. */
  readonly key: Uint8Array
  readonly metrics: LiveMetrics
  /** Reports outages of the log while a client follows it. */
  readonly outage: OutageReport
  readonly logger: Logger
}

export interface ReaderLive {
  /** If live streams are not enabled, the route answers 404 with the option to set. */
  readonly routes: FastifyPluginAsync
  /** Checks the log. undefined if live streams are not enabled. @throws LiveUnavailableError */
  readonly check: (() => Promise<void>) | undefined
  close(): Promise<void>
}

/** Does not connect to Kafka before a client follows, and does not load its client without live streams. */
export async function openReaderLive(
  options: ReaderLiveOptions,
  { access, key, metrics, outage, logger }: ReaderLiveParts,
): Promise<ReaderLive> {
  const { live: limits, subscriber, message } = options
  const decoder = { transformer: configuredTransformer(options), subscribed: subjectFilter(subscriber.subjects), message }
  let live: OpenLiveMessages | undefined
  if (limits.enabled) {
    const { kafkaLiveTopic } = await import('../../pipeline/live/kafka.ts')
    live = openLiveMessages({ topic: kafkaLiveTopic(options, logger), decoder, outage, logger })
  }
  return {
    routes: liveRoutes({ live, access, eventIdKey: deriveKey(key, 'live places'), options: limits, metrics, logger }),
    check: live === undefined ? undefined : () => live.check(),
    close: async () => live?.close(),
  }
}
