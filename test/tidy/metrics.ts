// The metrics of each role, registered by the role's own code, for the table in docs/reference/metrics.md.

import { type Counter, Registry } from 'prom-client'
import { createLogger } from '../../config/logger.ts'
import { openOutages } from '../../config/outage.ts'
import { watchExpiries } from '../../control-plane/certificates/metrics.ts'
import { countRefusals } from '../../http/error-answer.ts'
import { logMetrics } from '../../pipeline/embedded-log/metrics.ts'
import { openIngestMetrics } from '../../pipeline/ingest/metrics.ts'
import { openMqttMetrics } from '../../pipeline/mqtt/metrics.ts'
import { groupMetrics, pipelineMetrics } from '../../pipeline/writer/metrics.ts'
import { memoryMetrics } from '../../roles/process-metrics.ts'
import { openReaderMetrics } from '../../roles/reader/metrics.ts'

type Register = (registry: Registry) => unknown

const outages: Register = registry => openOutages(createLogger({ level: 'silent', pretty: false }), registry, 'component', {})
const certificates: Register = registry => watchExpiries(registry, { expiries: () => Promise.reject(new Error('is not asked')) })
const writer: Register = registry => pipelineMetrics(registry, 'component', ['topic'])
const group: Register = registry => groupMetrics(registry, 'component', ['topic'])
const refusals: Register = registry => countRefusals(registry, 'component')
const embedded: Register = registry => logMetrics(registry, {})

/** `up` has all of them. */
const roles: Readonly<Record<string, readonly Register[]>> = {
  api: [outages, memoryMetrics, refusals, certificates],
  ingest: [outages, memoryMetrics, refusals, openIngestMetrics, openMqttMetrics],
  bridge: [outages, memoryMetrics, registry => openIngestMetrics(registry, 'bridge')],
  writer: [outages, memoryMetrics, writer, group],
  reader: [outages, memoryMetrics, refusals, openReaderMetrics],
  up: [embedded],
}

interface Described extends Pick<Counter, 'get'> {
  readonly name: string
  readonly help: string
  readonly type: string
  readonly labelNames: readonly string[]
}

/** @throws Error if two roles describe a metric differently: a scraper that collects both would show either */
export function metrics(): { metric: Described; roles: string[] }[] {
  const found = new Map<string, { metric: Described; roles: string[] }>()
  for (const [role, registers] of Object.entries(roles)) {
    const registry = new Registry()
    for (const register of registers) register(registry)
    for (const metric of registry.getMetricsAsArray() as unknown as Described[]) {
      const known = found.get(metric.name)
      if (known === undefined) found.set(metric.name, { metric, roles: [role] })
      else {
        if (described(known.metric) !== described(metric))
          throw new Error(`${known.roles.join()} and ${role} describe ${metric.name} differently`)
        known.roles.push(role)
      }
    }
  }
  return [...found.values()].toSorted((one, other) => (one.metric.name < other.metric.name ? -1 : 1))
}

const described = ({ help, type, labelNames }: Described): string => [help, type, ...labelNames].join('\n')

export function metricTable(): string {
  const rows = metrics().map(({ metric: { name, type, labelNames, help }, roles }) => {
    const labels = labelNames.map(label => `\`${label}\``).join(', ')
    return `| \`${name}\` | ${type} | ${labels} | ${roles.join(', ')} | ${help} |`
  })
  return ['| Metric | Type | Labels | Roles | Meaning |', '|---|---|---|---|---|', ...rows].join('\n')
}

/** The metrics in Prometheus text that are not in the table. Those of the process itself come from prom-client and Node.js. */
export function undocumentedMetrics(text: string): string[] {
  const known = new Set(metrics().map(({ metric }) => metric.name))
  const names = [...text.matchAll(/^# TYPE (\S+)/gm)].map(([, name]) => name!)
  if (names.length === 0) throw new Error('the text has no metric')
  return names.filter(name => !/^(process|nodejs)_/.test(name) && !known.has(name))
}
