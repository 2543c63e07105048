// Metrics of ingest and of a bridge, named as in Vector's component specification: messages and bytes accepted, and publishes rejected, by code.
//
// Labels never contain data from devices: the codes are those of the table of errors.

import type { Registry } from 'prom-client'
import { counter, errorsHelp } from '../writer/metrics.ts'

export interface IngestMetrics {
  accepted(payloadBytes: number): void
  /** @param code of the table of errors: `forbidden`, `unavailable`; of a bridge, the rule of a dead letter or `refused` */
  refused(code: string): void
}

const componentLabels = ['component_id', 'component_kind']

/** Registers the metrics beside those of the process's other components. */
export function openIngestMetrics(registry: Registry, name: 'ingest' | 'bridge' = 'ingest'): IngestMetrics {
  const component = { component_id: name, component_kind: 'source' } as const
  // Labels are bound once, because looking them up costs more than counting.
  const events = counter(
    registry,
    'component_received_events_total',
    'Messages that a component received: from a device, or from the log.',
    componentLabels,
  ).labels(component)
  const bytes = counter(
    registry,
    'component_received_event_bytes_total',
    'Bytes of the messages that a component received.',
    componentLabels,
  ).labels(component)
  const errors = counter(registry, 'component_errors_total', errorsHelp, [...componentLabels, 'stage', 'error_type', 'error_code'])

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
