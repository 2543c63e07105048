// Metrics of MQTT: open connections, and what subscribers got. Messages that arrive and refusals are counted with those of ingest.

import type { Registry } from 'prom-client'
import { counter, errorsHelp, gauge, openConnectionsHelp, sentEventsHelp } from '../writer/metrics.ts'

export type MqttMetrics = ReturnType<typeof openMqttMetrics>

const component = { component_id: 'mqtt', component_kind: 'source' } as const

/** Open connections, as the registry has them; undefined without MQTT. */
export async function mqttConnectionsIn(registry: Registry): Promise<number | undefined> {
  const metric = await registry.getSingleMetric('open_connections')?.get()
  return metric?.values.find(({ labels }) => labels['component_id'] === component.component_id)?.value
}

/** Registers the metrics beside those of the process's other components. */
export function openMqttMetrics(registry: Registry) {
  const connections = gauge(registry, 'open_connections', openConnectionsHelp, Object.keys(component)).labels(component)
  connections.set(0)
  const delivered = counter(registry, 'component_sent_events_total', sentEventsHelp, Object.keys(component)).labels(component)
  const lost = counter(registry, 'component_errors_total', errorsHelp, [...Object.keys(component), 'stage', 'error_type', 'error_code'])
  return {
    opened: (): void => connections.inc(),
    closed: (): void => connections.dec(),
    /** A message was sent to a subscriber. */
    delivered: (): void => delivered.inc(),
    /** Messages of a subscription were deleted from the log before they could be sent. */
    lost: (): void => lost.inc({ ...component, stage: 'sending', error_type: 'reader_failed', error_code: 'lost' }),
  }
}
