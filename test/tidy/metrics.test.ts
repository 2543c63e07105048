// The check of metrics finds those that are not in the table.

import { expect, test } from 'vitest'
import { metricTable, undocumentedMetrics } from './metrics.ts'

test('a metric that is not in the table is found, except those of the process', () => {
  const text = ['nodejs_eventloop_lag_seconds gauge', 'dependency_outage gauge', 'things_total counter']
    .map(line => `# TYPE ${line}\n`)
    .join('')
  expect(undocumentedMetrics(text)).toEqual(['things_total'])
})

test('a text without metrics is an error', () => {
  expect(() => undocumentedMetrics('<html></html>')).toThrow('no metric')
})

test('the table has a row for each metric, with the roles that register it', () => {
  expect(metricTable()).toMatch(/^\| `component_errors_total` \| counter \| .* \| ingest, bridge, writer, reader \| /m)
})
