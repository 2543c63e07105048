// Live streams of a reader process: the messages of a channel as they come to Kafka, beside what its store holds.

import type { FastifyPluginAsync } from 'fastify'
import { type Static, Type } from 'typebox'
import type { Logger } from '../config/logger.ts'
import type { OptionFault } from '../config/options.ts'
import type { OutageReport } from '../config/outage.ts'
import { deriveKey } from '../config/secrets.ts'
import type { AccessControl } from '../control-plane/client.ts'
import { kafkaFaults, kafkaLogOptions } from '../pipeline/kafka/options.ts'
import { kafkaLiveTopic } from '../pipeline/live/kafka.ts'
import { openLiveMessages } from '../pipeline/live/live.ts'
import { messageOptions, subscriberOptions } from '../pipeline/options.ts'
import { subjectFilter } from '../pipeline/subject-filter.ts'
import { transformerOptions } from '../pipeline/transformer-options.ts'
import type { LiveMetrics } from '../readers/live/metrics.ts'
import { liveOptions } from '../readers/live/options.ts'
import { liveRoutes } from '../readers/live/routes.ts'
import { openTransformer } from '../transformers/select.ts'

/** What makes a topic, and what may wait to be appended, is of those who write. */
const {
  partitions: _partitions,
  replicationFactor: _replication,
  queueBytes: _queue,
  appendTimeoutMs: _append,
  ...topic
} = kafkaLogOptions.properties

/** The sections of a reader that follows the log; those of decoding are to be as the writers have them. */
export const readerLiveSections = {
  live: Type.Object({
    enabled: Type.Boolean({
      default: false,
      description: 'Serve live streams (`GET /channels/<channel>/messages/stream`) from the log of the section `log`.',
    }),
    ...liveOptions.properties,
  }),
  log: Type.Object(topic),
  subscriber: subscriberOptions,
  transformer: transformerOptions,
  message: messageOptions,
} as const

const sections = Type.Object(readerLiveSections)
export type ReaderLiveOptions = Static<typeof sections>

/** What is right by itself and wrong together. Of a log that is not followed nothing is wrong. */
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
  /** 32 bytes, the same in every reader: that of the cursors. One of its own is made of it. */
  readonly key: Uint8Array
  readonly metrics: LiveMetrics
  /** Of the log, while somebody follows it. */
  readonly outage: OutageReport
  readonly logger: Logger
}

export interface ReaderLive {
  /** The route answers 404, which says what to set, where live streams are not enabled. */
  readonly routes: FastifyPluginAsync
  /** Asks the log. undefined where live streams are not enabled. @throws LiveUnavailableError */
  readonly check: (() => Promise<void>) | undefined
  close(): Promise<void>
}

/** Nothing is asked of Kafka before somebody follows. */
export function openReaderLive(options: ReaderLiveOptions, { access, key, metrics, outage, logger }: ReaderLiveParts): ReaderLive {
  const { live: limits, log, subscriber, transformer, message } = options
  const decoder = {
    transformer: openTransformer(
      transformer,
      { timeMinUs: message.earliestSeconds * 1e6, timeAheadMaxUs: message.aheadDays * 86_400e6 },
      { payloadBytesMax: message.payloadBytes },
    ),
    subscribed: subjectFilter(subscriber.subjects),
    message,
  }
  const live = limits.enabled ? openLiveMessages({ topic: kafkaLiveTopic(log, logger), decoder, outage, logger }) : undefined
  return {
    routes: liveRoutes({ live, access, placeKey: deriveKey(key, 'live places'), options: limits, metrics, logger }),
    check: live === undefined ? undefined : () => live.check(),
    close: async () => live?.close(),
  }
}
