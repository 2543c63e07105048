// Metrics of MQTT: open connections. Messages and refusals are counted with those of ingest.

import type { Registry } from 'prom-client'
import { gauge, openConnectionsHelp } from '../writer/metrics.ts'

export interface MqttMetrics {
  opened(): void
  closed(): void
}

const component = { component_id: 'mqtt', component_kind: 'source' } as const

/** Registers the metrics beside those of the process's other components. */
export function openMqttMetrics(registry: Registry): MqttMetrics {
  const connections = gauge(registry, 'open_connections', openConnectionsHelp, Object.keys(component)).labels(component)
  connections.set(0)
  return { opened: () => connections.inc(), closed: () => connections.dec() }
}
