// What ingest counts, named as in Vector's component specification: messages and bytes taken, and publishes refused, by code.
//
// No label holds what comes from a device: the codes are those of the table of errors.

import type { Registry } from 'prom-client'
import { counter } from '../metrics.ts'

export interface IngestMetrics {
  accepted(payloadBytes: number): void
  /** @param code of the table of errors: `forbidden`, `unavailable` */
  refused(code: string): void
}

const component = { component_id: 'ingest', component_kind: 'source' } as const
const componentLabels = Object.keys(component)

/** Counts in the registry, beside the other components of the process. */
export function openIngestMetrics(registry: Registry): IngestMetrics {
  // Bound to their labels once: looking labels up costs more than counting.
  const events = counter(
    registry,
    'component_received_events_total',
    'Messages that a component took: from a device, or from the log.',
    componentLabels,
  ).labels(component)
  const bytes = counter(
    registry,
    'component_received_event_bytes_total',
    'Bytes of the messages that a component took.',
    componentLabels,
  ).labels(component)
  const errors = counter(registry, 'component_errors_total', 'Errors by where they occurred and what they were.', [
    ...componentLabels,
    'stage',
    'error_type',
    'error_code',
  ])

  return {
    accepted(payloadBytes) {
      events.inc()
      bytes.inc(payloadBytes)
    },
    refused(code) {
      errors.inc({ ...component, stage: 'receiving', error_type: 'request_refused', error_code: code })
    },
  }
}
