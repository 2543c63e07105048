// The pipeline's metrics, named as in Vector's component specification, and updated once for each batch.
//
// No label contains text from a device: labels are the names of the writer and its topics, the part of the pipeline, and fixed words.

import { Counter, Gauge, type Metric, type Registry } from 'prom-client'
import type { MessageCounts } from '../../sinks/sink.ts'
import { type LogPartition, logOf, partitionOf } from '../../transformers/log-partition.ts'
import type { PendingBatch } from './batch.ts'
import type { DeadLetterStage } from './dead-letters.ts'
import type { PartitionLag } from './lag.ts'

/** The metrics of one writer. */
export interface PipelineMetrics {
  /** A batch was taken from the log and decoded; it is in flight. */
  taken(pending: PendingBatch): void
  /**
   * A batch was settled by the store.
   *
   * @param unnumbered how many of its records are stored without a number for their series
   */
  settled(pending: PendingBatch, counts: readonly MessageCounts[], unnumbered?: number): void
  /** What was in flight was dropped, to be read again. */
  dropped(): void
  /** A message was dead-lettered under this rule, which is a fixed word of a transformer, a sink or the pipeline. */
  deadLettered(rule: string, stage: DeadLetterStage): void
  /** Something failed and is retried; or the writer itself failed for good. */
  failed(what: keyof typeof failureLabels): void
  /** The log deleted messages unread. */
  lost(messages: number): void
  /** How far each partition of the writer's share is behind; partitions that are not in the map no longer belong to it. */
  lagging(lags: ReadonlyMap<LogPartition, PartitionLag>): void
}

const component = ['component_id', 'component_kind'] as const

/** Kept when the worker that wrote is gone. */
export const lastWriteName = 'last_write_timestamp_seconds'

/** Component, stage and type of a failure, in the words of the specification. */
const failureLabels = {
  log: { component_kind: 'source', stage: 'receiving', error_type: 'reader_failed' },
  store: { component_kind: 'sink', stage: 'sending', error_type: 'request_failed' },
  'dead letters': { component_kind: 'sink', stage: 'sending', error_type: 'writer_failed' },
  fenced: { component_kind: 'sink', stage: 'sending', error_type: 'acknowledgment_failed' },
  stale: { component_kind: 'sink', stage: 'sending', error_type: 'request_failed' },
  writer: { component_kind: 'sink', stage: 'sending', error_type: 'configuration_failed' },
} as const

/**
 * @param writer the component's id: `relational`
 * @param topics by log
 */
export function pipelineMetrics(registry: Registry, writer: string, topics: readonly string[]): PipelineMetrics {
  const received = counter(
    registry,
    'component_received_events_total',
    'Messages that a component received: from a device, or from the log.',
    component,
  )
  const receivedBytes = counter(
    registry,
    'component_received_event_bytes_total',
    'Bytes of the messages that a component received.',
    component,
  )
  const sent = counter(registry, 'component_sent_events_total', sentEventsHelp, component)
  const sentUnnumbered = counter(
    registry,
    'component_sent_unnumbered_records_total',
    'Records that PostgreSQL stores with their texts, since their channel has all its numbers of series or their texts are too long.',
    component,
  )
  const errors = counter(registry, 'component_errors_total', errorsHelp, [...component, 'stage', 'error_type', 'error_code'])
  const bufferEvents = gauge(registry, 'buffer_events', 'Messages in flight between the log and the store.', component)
  const bufferBytes = gauge(registry, 'buffer_byte_size', 'Bytes of the messages in flight between the log and the store.', component)
  const lastWrite = gauge(
    registry,
    lastWriteName,
    'When the store last accepted a batch, in seconds since 1970; absent before the first.',
    component,
    'max',
  )
  const source = { component_id: writer, component_kind: 'source' }
  const transform = { component_id: writer, component_kind: 'transform' }
  const sink = { component_id: writer, component_kind: 'sink' }
  const discarded = counter(
    registry,
    'component_discarded_events_total',
    'Messages that were not stored, by reason: `filtered`, `empty` and `duplicate` on purpose, `dead-lettered` and `deleted-unread` not.',
    [...component, 'intentional', 'reason'],
    [
      { ...transform, intentional: 'false', reason: 'dead-lettered' },
      { ...sink, intentional: 'false', reason: 'dead-lettered' },
      { ...source, intentional: 'false', reason: 'deleted-unread' },
    ],
  )

  function discard(messages: number, labels: typeof source, intentional: 'true' | 'false', reason: string): void {
    if (messages > 0) discarded.inc({ ...labels, intentional, reason }, messages)
  }

  return {
    taken({ batch, bytes }) {
      received.inc(source, batch.messages.length)
      receivedBytes.inc(source, bytes)
      bufferEvents.inc(sink, batch.messages.length)
      bufferBytes.inc(sink, bytes)
    },

    settled({ batch, bytes }, counts, unnumbered = 0) {
      bufferEvents.dec(sink, batch.messages.length)
      bufferBytes.dec(sink, bytes)
      if (unnumbered > 0) sentUnnumbered.inc(sink, unnumbered)
      lastWrite.set(sink, Date.now() / 1000)
      for (const { stored, empty, filtered, duplicate } of counts) {
        sent.inc(sink, stored)
        discard(filtered, transform, 'true', 'filtered')
        discard(empty, transform, 'true', 'empty')
        discard(duplicate, sink, 'true', 'duplicate')
      }
    },

    dropped() {
      bufferEvents.set(sink, 0)
      bufferBytes.set(sink, 0)
    },

    deadLettered(rule, stage) {
      const part = stage === 'decode' ? transform : sink
      const where =
        stage === 'decode' ? { stage: 'processing', error_type: 'parser_failed' } : { stage: 'sending', error_type: 'value_invalid' }
      errors.inc({ ...part, ...where, error_code: rule })
      discard(1, part, 'false', 'dead-lettered')
    },

    failed(what) {
      errors.inc({ component_id: writer, ...failureLabels[what], error_code: '' })
    },

    lost(messages) {
      discard(messages, source, 'false', 'deleted-unread')
    },

    lagging: lagGauges(registry, writer, topics),
  }
}

function lagGauges(registry: Registry, writer: string, topics: readonly string[]): PipelineMetrics['lagging'] {
  const partitionLabels = [...component, 'topic', 'partition']
  const lagMessages = gauge(
    registry,
    'consumer_lag_messages',
    'Messages of a partition that are neither stored nor dead-lettered, as offsets up to the end of the log. Several processes may report a partition: take `max` by topic and partition.',
    partitionLabels,
    'max',
  )
  const lagSeconds = gauge(
    registry,
    'consumer_lag_seconds',
    'Age of the oldest message of a partition that is neither stored nor dead-lettered, by when it was created; 0 if none waits; an upper bound until that message is fetched. Of a partition that no worker of the process has: how long messages have waited without progress.',
    partitionLabels,
    'max',
  )
  const labelsOf = (at: LogPartition) => ({
    component_id: writer,
    component_kind: 'source',
    topic: topics[logOf(at)]!,
    partition: partitionOf(at),
  })
  let reported: Iterable<LogPartition> = []
  return lags => {
    for (const at of reported) {
      if (lags.has(at)) continue
      lagMessages.remove(labelsOf(at))
      lagSeconds.remove(labelsOf(at))
    }
    for (const [at, { messages, seconds }] of lags) {
      lagMessages.set(labelsOf(at), messages)
      lagSeconds.set(labelsOf(at), seconds)
    }
    reported = [...lags.keys()]
  }
}

/** What a process reports of its consumer group, beside the metrics of its workers. */
export interface GroupMetrics {
  /** How many partitions of each topic no member has, by log. */
  unassigned(counts: readonly number[]): void
  /** As in `PipelineMetrics`, of partitions that no worker of the process has. */
  readonly lagging: PipelineMetrics['lagging']
}

/** As `pipelineMetrics`. */
export function groupMetrics(registry: Registry, writer: string, topics: readonly string[]): GroupMetrics {
  const partitions = gauge(
    registry,
    'consumer_unassigned_partitions',
    'Partitions of a topic that no member of the consumer group has, reported by processes that have none of the topic; 0 by others.',
    [...component, 'topic'],
    'max',
  )
  return {
    unassigned(counts) {
      for (const [log, count] of counts.entries()) {
        partitions.set({ component_id: writer, component_kind: 'source', topic: topics[log]! }, count)
      }
    },
    lagging: lagGauges(registry, writer, topics),
  }
}

/** Of metrics that several components of a process share. */
export const openConnectionsHelp = 'Open connections: live streams of a reader, and MQTT connections.'
export const sentEventsHelp = 'Messages stored, or sent to a subscriber of MQTT.'
export const errorsHelp = 'Errors by stage and type; a dead letter is one, with its rule as `error_code`.'

/**
 * The counter of this name in the registry, created if it is missing: several components of a process share their names.
 *
 * @param starts labels of series that are 0 from the start: one that begins above 0 has no increase, which alerts look for
 */
export function counter(
  registry: Registry,
  name: string,
  help: string,
  labelNames: readonly string[],
  starts: readonly Readonly<Record<string, string>>[] = [],
): Counter {
  const present: Metric | undefined = registry.getSingleMetric(name)
  const found = present instanceof Counter ? present : new Counter({ name, help, labelNames, registers: [registry] })
  for (const labels of starts) found.inc(labels, 0)
  return found
}

/** The same for a gauge. @param aggregator how the values of several workers are combined */
export function gauge(
  registry: Registry,
  name: string,
  help: string,
  labelNames: readonly string[],
  aggregator: 'sum' | 'max' = 'sum',
): Gauge {
  const present: Metric | undefined = registry.getSingleMetric(name)
  return present instanceof Gauge ? present : new Gauge({ name, help, labelNames, aggregator, registers: [registry] })
}
