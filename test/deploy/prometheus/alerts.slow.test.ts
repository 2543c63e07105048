// deploy/prometheus/alerts.yaml, by Prometheus' own tool: each alert fires for what it is about, and is silent beside it.

import { execFile } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { parse, stringify } from 'yaml'
import { describeUnlessMissing } from '../../servers/describe-with.ts'
import { missingService } from '../../servers/install/apt.ts'
import { temporaryFolder } from '../../temporary-folder.ts'
import { root } from '../../tidy/files.ts'
import { metrics } from '../../tidy/metrics.ts'

interface Rule {
  readonly alert: string
  readonly expr: string
  readonly annotations: Readonly<Record<string, string>>
}

interface Case {
  /** The expressions of series that fire it, and of such that do not: in each the values of a minute after the other. */
  readonly firing: Readonly<Record<string, string>>
  /** For how many labels; by default one. */
  readonly alerts?: number
  readonly silent: Readonly<Record<string, string>>
  /** When it must fire, in minutes. */
  readonly atMinutes: number
}

const file = join(root, 'deploy/prometheus/alerts.yaml')
const rules = (parse(readFileSync(file, 'utf8')) as { groups: { rules: Rule[] }[] }).groups.flatMap(group => group.rules)
const days = 86_400

const writer = 'component_id="relational",component_kind="sink"'
const partition = `${writer},topic="messages",partition="0"`
const cases: Readonly<Record<string, Case>> = {
  SluiceDown: {
    // One does not answer, and of the other there is no target any more.
    firing: { 'up{job="sluice"}': '1 0x12', 'dependency_outage{component_id="relational",dependency="store"}': '0x2 stale' },
    alerts: 2,
    silent: {
      'up{job="sluice"}': '1 0 1x11',
      'up{job="node"}': '0x12',
      // One of two.
      'dependency_outage{component_id="relational",dependency="store",instance="1"}': '0x2 stale',
      'dependency_outage{component_id="relational",dependency="store",instance="2"}': '0x12',
    },
    atMinutes: 10,
  },
  SluiceDependencyAway: {
    firing: { 'dependency_outage{component_id="relational",dependency="store"}': '0 1x5' },
    silent: { 'dependency_outage{component_id="relational",dependency="store"}': '0 1 0 1 0x2' },
    atMinutes: 4,
  },
  SluiceNothingWritten: {
    firing: {
      [`consumer_lag_messages{${partition}}`]: '5x10',
      [`last_write_timestamp_seconds{${writer}}`]: '60x10',
      // It has stored nothing since its start.
      'consumer_lag_messages{component_id="document",partition="0"}': '5x10',
    },
    alerts: 2,
    silent: {
      // Nothing waits; and another one writes.
      [`consumer_lag_messages{${partition}}`]: '0x10',
      [`last_write_timestamp_seconds{${writer}}`]: '60x10',
      'consumer_lag_messages{component_id="document",partition="0"}': '9x10',
      'last_write_timestamp_seconds{component_id="document"}': '0+60x10',
    },
    atMinutes: 9,
  },
  SluiceBehind: {
    firing: { [`consumer_lag_seconds{${partition}}`]: '400x15' },
    silent: { [`consumer_lag_seconds{${partition}}`]: '400x8 0 400x6' },
    atMinutes: 12,
  },
  SluiceNoPartitions: {
    firing: { [`consumer_unassigned_partitions{${writer},topic="messages"}`]: '2x10' },
    silent: { [`consumer_unassigned_partitions{${writer},topic="messages"}`]: '2x3 0x7' },
    atMinutes: 7,
  },
  SluiceMessagesDeletedUnread: {
    firing: { [`component_discarded_events_total{${writer},reason="deleted-unread"}`]: '0 7x9' },
    silent: { [`component_discarded_events_total{${writer},reason="filtered"}`]: '0 7x9' },
    atMinutes: 5,
  },
  SluiceDeadLetters: {
    firing: { [`component_discarded_events_total{${writer},reason="dead-lettered"}`]: '0 1x9' },
    silent: { [`component_discarded_events_total{${writer},reason="duplicate"}`]: '0 1x9' },
    atMinutes: 5,
  },
  SluicePublishesRefused: {
    firing: { 'component_errors_total{component_id="ingest",error_type="request_refused",error_code="forbidden"}': '0+120x25' },
    silent: { 'component_errors_total{component_id="ingest",error_type="request_refused",error_code="forbidden"}': '0+30x25' },
    atMinutes: 22,
  },
  SluiceRequestsRefused: {
    firing: { 'http_server_refused_requests_total{component_id="api",method="POST",path="/things",status="503"}': '0+120x25' },
    silent: {
      'http_server_refused_requests_total{component_id="api",method="POST",path="/things",status="503"}': '0+30x25',
      'http_server_refused_requests_total{component_id="ingest",method="POST",path="/channels/:channel/messages",status="403"}': '0+120x25',
    },
    atMinutes: 22,
  },
  SluiceMemoryNearBound: {
    firing: { 'memory_used_ratio{instance="1"}': '0.95x15', 'memory_used_ratio{instance="2"}': '0.5x15' },
    silent: { 'memory_used_ratio{instance="1"}': '0.95x8 0.6 0.95x6', 'memory_used_ratio{instance="2"}': '0.85x15' },
    atMinutes: 12,
  },
  SluiceLogNearlyFull: {
    firing: { 'log_used_ratio{dependency="log"}': '0.85x2 0.92x8', 'log_used_ratio{dependency="dead_letters"}': '0.1x10' },
    silent: { 'log_used_ratio{dependency="log"}': '0.89x10', 'log_used_ratio{dependency="dead_letters"}': '0.1x10' },
    atMinutes: 9,
  },
  SluiceCertificateEnds: {
    firing: { certificates_earliest_expiry_timestamp_seconds: `${13 * days}x5` },
    silent: { certificates_earliest_expiry_timestamp_seconds: `${15 * days}x5`, other: 'NaN' },
    atMinutes: 2,
  },
  SluiceRevocationsWait: {
    firing: { certificates_revocations_pending: '3x10' },
    silent: { certificates_revocations_pending: '3 3 0 3x3 0x3' },
    atMinutes: 7,
  },
}

test('each alert has a case here, metrics that roles have, and a paragraph that its link names; counters begin at 0', async () => {
  expect(rules.map(({ alert }) => alert)).toEqual(Object.keys(cases))
  const all = metrics()
  const known = new Set(['up', ...all.map(({ metric }) => metric.name)])
  const guide = readFileSync(join(root, 'docs/guides/operate.md'), 'utf8')
  for (const { alert, expr, annotations } of rules) {
    const named = [...expr.matchAll(/\b[a-z]+(?:_[a-z]+)+\b(?=[{)[\s])|\bup\b/g)].map(([name]) => name)
    expect([alert, named.filter(name => !known.has(name) && !/^(component_id|error_code)$/.test(name))]).toEqual([alert, []])
    expect(named.length).toBeGreaterThan(0)
    // What begins above 0 has no increase.
    for (const [, name, matchers = ''] of expr.matchAll(/increase\((\w+)(?:\{(.*?)\})?/g)) {
      const labels = Object.fromEntries([...matchers.matchAll(/(\w+)="(.*?)"/g)].map(([, label, value]) => [label, value]))
      const { values } = await all.find(({ metric }) => metric.name === name)!.metric.get()
      expect([alert, values]).toEqual([alert, expect.arrayContaining([{ value: 0, labels: expect.objectContaining(labels) }])])
    }
    expect(annotations['runbook']).toBe(`docs/guides/operate.md#${alert.toLowerCase()}`)
    expect(guide).toContain(`\n### ${alert}\n`)
  }
})

describeUnlessMissing('promtool', missingService('prometheus', ['prometheus'], ['/usr/bin/promtool']), () => {
  test('each alert fires, and only for what it is about', async () => {
    const folder = temporaryFolder()
    const tests = Object.entries(cases).flatMap(([alertname, { firing, alerts = 1, silent, atMinutes }]) =>
      [firing, silent].map(series => ({
        interval: '1m',
        input_series: Object.entries(series).map(([name, values]) => ({ series: name, values })),
        // promtool compares labels and texts too, so only the number is looked at, by the series that Prometheus makes of an alert.
        promql_expr_test: [
          {
            expr: `count(ALERTS{alertname="${alertname}",alertstate="firing"}) or vector(0)`,
            eval_time: `${atMinutes}m`,
            exp_samples: [{ labels: '{}', value: series === firing ? alerts : 0 }],
          },
        ],
      })),
    )
    const path = join(folder, 'test.yaml')
    writeFileSync(path, stringify({ rule_files: [file], evaluation_interval: '1m', tests }))
    const { stdout } = await promisify(execFile)('promtool', ['test', 'rules', path])
    expect(stdout).toContain('SUCCESS')
  })
})
