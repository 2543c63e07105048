// The pipeline's metrics, named as in Vector's component specification, and updated once per batch.
//
// No label holds what a device sent: they are the writer's name, the part of the pipeline, and fixed words of ours.

import { Counter, Gauge, type Metric, type Registry } from 'prom-client'
import type { MessageCounts } from '../sinks/sink.ts'
import type { PendingBatch } from './batch.ts'
import type { DeadLetterStage } from './dead-letters.ts'
import type { PartitionLag } from './lag.ts'

/** The metrics of one writer. */
export interface PipelineMetrics {
  /** A batch was taken from the log and decoded; it is in flight. */
  taken(pending: PendingBatch): void
  /** A batch was settled by the store. */
  settled(pending: PendingBatch, counts: readonly MessageCounts[]): void
  /** What was in flight was dropped, to be read again. */
  dropped(): void
  /** A message was put to the dead letters under this rule, which is a fixed word of a transformer, sink or ours. */
  deadLettered(rule: string, stage: DeadLetterStage): void
  /** Something failed that is tried again; or, for good, the writer itself. */
  failed(what: keyof typeof failureLabels): void
  /** The log deleted messages unread. */
  lost(messages: number): void
  /** How far each partition of the writer's share is behind; a partition that is not among them is no longer its own. */
  lagging(lags: ReadonlyMap<number, PartitionLag>): void
}

const component = ['component_id', 'component_kind'] as const

/** It outlives the worker that wrote. */
export const lastWriteName = 'last_write_timestamp_seconds'

/** Part, stage and type of a failure, in the words of the specification. */
const failureLabels = {
  log: { component_kind: 'source', stage: 'receiving', error_type: 'reader_failed' },
  store: { component_kind: 'sink', stage: 'sending', error_type: 'request_failed' },
  'dead letters': { component_kind: 'sink', stage: 'sending', error_type: 'writer_failed' },
  fenced: { component_kind: 'sink', stage: 'sending', error_type: 'acknowledgment_failed' },
  writer: { component_kind: 'sink', stage: 'sending', error_type: 'configuration_failed' },
} as const

/** @param writer the component's id: `relational` */
export function pipelineMetrics(registry: Registry, writer: string): PipelineMetrics {
  const received = counter(
    registry,
    'component_received_events_total',
    'Messages that a component took: from a device, or from the log.',
    component,
  )
  const receivedBytes = counter(registry, 'component_received_event_bytes_total', 'Bytes of the messages that a component took.', component)
  const sent = counter(registry, 'component_sent_events_total', 'Messages stored.', component)
  const errors = counter(registry, 'component_errors_total', 'Errors by where they occurred and what they were.', [
    ...component,
    'stage',
    'error_type',
    'error_code',
  ])
  const discarded = counter(registry, 'component_discarded_events_total', 'Messages that were not stored, by the reason.', [
    ...component,
    'intentional',
    'reason',
  ])
  const bufferEvents = gauge(registry, 'buffer_events', 'Messages in flight between the log and the store.', component)
  const bufferBytes = gauge(registry, 'buffer_byte_size', 'Bytes of the messages in flight between the log and the store.', component)
  const ofPartition = [...component, 'partition']
  const lagMessages = gauge(
    registry,
    'consumer_lag_messages',
    'Messages of a partition that are neither stored nor dead-lettered: offsets up to the end of the log, of which some may hold no message. Reported by the worker that has the partition.',
    ofPartition,
    'max',
  )
  const lagSeconds = gauge(
    registry,
    'consumer_lag_seconds',
    'Age of the oldest message of a partition that is neither stored nor dead-lettered, by when it was created; 0 where none waits. Where it was not fetched yet, at most: since none waited, or since a stored one before it was created.',
    ofPartition,
    'max',
  )
  const lastWrite = gauge(
    registry,
    lastWriteName,
    'When the store last took a batch, in seconds since 1970. Absent before the first.',
    component,
    'max',
  )
  const source = { component_id: writer, component_kind: 'source' }
  const transform = { component_id: writer, component_kind: 'transform' }
  const sink = { component_id: writer, component_kind: 'sink' }

  let reported: Iterable<number> = []

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

    settled({ batch, bytes }, counts) {
      bufferEvents.dec(sink, batch.messages.length)
      bufferBytes.dec(sink, bytes)
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

    lagging(lags) {
      for (const partition of reported) {
        if (lags.has(partition)) continue
        lagMessages.remove({ ...source, partition })
        lagSeconds.remove({ ...source, partition })
      }
      for (const [partition, { messages, seconds }] of lags) {
        lagMessages.set({ ...source, partition }, messages)
        lagSeconds.set({ ...source, partition }, seconds)
      }
      reported = [...lags.keys()]
    },
  }
}

/** The counter of this name in the registry, made where it is missing: several components of a process share their names. */
export function counter(registry: Registry, name: string, help: string, labelNames: readonly string[]): Counter {
  const present: Metric | undefined = registry.getSingleMetric(name)
  return present instanceof Counter ? present : new Counter({ name, help, labelNames, registers: [registry] })
}

/** @param aggregator what becomes of the values of several workers */
function gauge(registry: Registry, name: string, help: string, labelNames: readonly string[], aggregator: 'sum' | 'max' = 'sum'): Gauge {
  const present: Metric | undefined = registry.getSingleMetric(name)
  return present instanceof Gauge ? present : new Gauge({ name, help, labelNames, aggregator, registers: [registry] })
}
