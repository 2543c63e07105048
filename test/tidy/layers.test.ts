// The rule for layers finds forbidden imports, and accepts allowed ones.

import { expect, test } from 'vitest'
import { importCircles, importsOf, layers, loadedAtOnce } from './layers.ts'

const problems = (path: string, text: string) => layers([{ path, text }]).map(finding => finding.slice(path.length + 1))

test.each([
  [
    'config/options/options.ts',
    "import { run } from '../../pipeline/writer/loop.ts'",
    '1: imports pipeline/writer/loop.ts: config/ may import config/',
  ],
  [
    'config/options/options.ts',
    "import { hasEscapedKey } from '../../transformers/json/exact-json.ts'",
    '1: imports transformers/json/exact-json.ts: config/ may import config/',
  ],
  [
    'http/requests/json-body.ts',
    "import { parseJson } from '../../transformers/json/parse.ts'",
    '1: imports transformers/json/parse.ts: http/ may import http/, config/, database/, transformers/json/exact-json.ts, transformers/json/times/rfc3339.ts, transformers/excerpt.ts',
  ],
  [
    'transformers/senml/decode.ts',
    "import type { Sink } from '../../sinks/sink.ts'",
    '1: imports sinks/sink.ts: transformers/ may import transformers/',
  ],
  [
    'transformers/json/decode.ts',
    "import { Type } from 'typebox'",
    '1: a transformer imports typebox: it is pure, and loads in a worker without a package',
  ],
  [
    'sinks/postgres/sink.ts',
    "import type { Logger } from '../../config/logger.ts'",
    '1: imports config/logger.ts: sinks/ may import sinks/, transformers/record-batch.ts, transformers/log-partition.ts, transformers/json/canonical.ts, transformers/json/flatten.ts, transformers/json/json-text.ts, transformers/time-units.ts, transformers/uuid.ts, database/, config/aborting.ts, config/bounded-map.ts, config/decimal-bytes.ts, config/each-at-once.ts, config/options/variable.ts',
  ],
  [
    'sinks/postgres/sink.ts',
    "\nimport { a } from '../cassandra/sink.ts'",
    "2: imports sinks/cassandra/sink.ts: no store's folder knows another's",
  ],
  [
    'readers/postgres/reader.ts',
    "import { a } from '../mongodb/reader.ts'",
    "1: imports readers/mongodb/reader.ts: no store's folder knows another's",
  ],
  [
    'readers/routes.ts',
    "import { a } from '../control-plane/index.ts'",
    '1: imports control-plane/index.ts: readers/ may import readers/, config/, http/, database/, control-plane/client.ts, transformers/json/canonical.ts, transformers/json/exact-json.ts, transformers/json/unflatten.ts, transformers/json/path.ts, transformers/json/times/rfc3339.ts, transformers/time-units.ts, transformers/uuid.ts',
  ],
  [
    'readers/cassandra/reader.ts',
    "import { a } from '../../sinks/influxdb/connection.ts'",
    '1: imports sinks/influxdb/connection.ts: readers/cassandra/ may import readers/, config/, http/, database/, control-plane/client.ts, transformers/json/canonical.ts, transformers/json/exact-json.ts, transformers/json/unflatten.ts, transformers/json/path.ts, transformers/json/times/rfc3339.ts, transformers/time-units.ts, transformers/uuid.ts, sinks/sink-error.ts, sinks/cassandra/',
  ],
  [
    'readers/live/stream.ts',
    "import { a } from '../../pipeline/live/tail.ts'",
    '1: imports pipeline/live/tail.ts: readers/live/ may import readers/, config/, http/, database/, control-plane/client.ts, transformers/json/canonical.ts, transformers/json/exact-json.ts, transformers/json/unflatten.ts, transformers/json/path.ts, transformers/json/times/rfc3339.ts, transformers/time-units.ts, transformers/uuid.ts, pipeline/live/messages.ts, pipeline/live/rights.ts, transformers/record-batch.ts, transformers/json/json-text.ts',
  ],
  [
    'pipeline/writer/loop.ts',
    "import { a } from '../../control-plane/client.ts'",
    '1: imports control-plane/client.ts: pipeline/ may import pipeline/, config/, http/, database/, transformers/, sinks/',
  ],
  [
    'control-plane/index.ts',
    "export { a } from '../readers/reader.ts'",
    '1: imports readers/reader.ts: control-plane/ may import control-plane/, config/, http/, database/, transformers/json/times/rfc3339.ts, transformers/uuid.ts',
  ],
  ['up.ts', "const { a } = await import('./test/fake.ts')", '1: imports test/fake.ts: nothing but tests and benchmarks may'],
  [
    'sinks/pool.ts',
    "new Worker(new URL('../pipeline/worker.ts', import.meta.url))",
    '1: imports pipeline/worker.ts: sinks/ may import sinks/, transformers/record-batch.ts, transformers/log-partition.ts, transformers/json/canonical.ts, transformers/json/flatten.ts, transformers/json/json-text.ts, transformers/time-units.ts, transformers/uuid.ts, database/, config/aborting.ts, config/bounded-map.ts, config/decimal-bytes.ts, config/each-at-once.ts, config/options/variable.ts',
  ],
  ['database/server.ts', "import pg from 'pg'", '1: the driver pg is imported at once: load it by import() where it is opened'],
  [
    'pipeline/live/kafka.ts',
    "import { Admin } from '@platformatic/kafka'",
    '1: the driver @platformatic/kafka is imported at once: load it by import() where it is opened',
  ],
  ['charts/chart.ts', "import { a } from '../config/options.ts'", '1: stands in no layer: give its folder a rule in test/tidy/layers.ts'],
])('%s with %s is found', (path, text, problem) => {
  expect(problems(path, text)).toEqual([problem])
})

test.each([
  ['main.ts', "import { up } from './up.ts'"],
  ['up.ts', "import { openSink } from './sinks/postgres/sink.ts'"],
  ['pipeline/ingest/routes.ts', "import { a } from '../../control-plane/client.ts'\nimport { b } from '../log.ts'"],
  ['readers/postgres/reader.ts', "import { a } from '../reader.ts'\nimport type { Database } from '../../database/database.ts'"],
  [
    'http/requests/json-body.ts',
    "import { a } from '../../transformers/json/exact-json.ts'\nimport { b } from '../../config/options/allowed.ts'",
  ],
  [
    'readers/answers/record-json.ts',
    "import { a } from '../../transformers/json/exact-json.ts'\nimport { b } from '../../transformers/json/unflatten.ts'",
  ],
  ['readers/influxdb/select.ts', "import { a } from '../../sinks/influxdb/connection.ts'"],
  ['readers/live/stream.ts', "import type { Follower } from '../../pipeline/live/messages.ts'"],
  ['sinks/influxdb/encode.ts', "import { a } from '../../transformers/json/flatten.ts'"],
  ['transformers/senml/decode.ts', "import { Buffer } from 'node:buffer'\nimport type { Envelope } from '../envelope.ts'"],
  ['pipeline/kafka/connection.ts', "import { Admin } from '@platformatic/kafka'"],
  ['database/server.ts', "import type pg from 'pg'\nconst { Pool } = await import('pg')"],
  ['test/sinks/sink.test.ts', "import { a } from '../../readers/postgres/reader.ts'\nimport pg from 'pg'"],
])('%s with %s passes', (path, text) => {
  expect(problems(path, text)).toEqual([])
})

test('multi-line imports, imports for their effect, and re-exports are found', () => {
  const text =
    "// from './none.ts'\nimport {\n  a,\n  type B,\n} from './several.ts'\nimport './effect.ts'\nexport * from './again.ts'\nexport const x = 'from'\n"
  expect(importsOf(text).map(({ specifier, line }) => [specifier, line])).toEqual([
    ['./several.ts', 2],
    ['./effect.ts', 6],
    ['./again.ts', 7],
  ])
})

const file = (path: string, ...lines: readonly string[]) => ({ path, text: lines.map(line => `${line}\n`).join('') })

test('a role that may run without Kafka loads its client on demand, also through other files', () => {
  const client = file('pipeline/kafka/log.ts', "import { Admin } from '@platformatic/kafka'")
  const files = [client, file('pipeline/log.ts', "export * from './kafka/log.ts'")]
  const loads = (line: string) => loadedAtOnce([...files, file('up.ts', line)], ['up.ts'])
  expect(loads("import { a } from './pipeline/log.ts'")).toEqual([
    'pipeline/kafka/log.ts: up.ts loads it at its start, and with it the client of Kafka: import() it',
  ])
  expect(loads("const { a } = await import('./pipeline/log.ts')")).toEqual([])
  expect(loads("import type { A } from './pipeline/log.ts'")).toEqual([])
})

test('an import cycle is found once, also of types only, without files that only lead into it or that it leads to', () => {
  const [a, b] = [file('http/a.ts', "import type { A } from './b.ts'"), file('http/b.ts', "import type { A } from './c.ts'")]
  const d = file('http/d.ts')
  expect(importCircles([a, b, file('http/c.ts', "export * from './d.ts'"), d])).toEqual([])
  expect(importCircles([a, b, file('http/c.ts', "import { a } from './b.ts'", "import './d.ts'"), d])).toEqual([
    'http/b.ts: is in a circle of imports with http/c.ts',
  ])
})

test.each([
  ["const { b } = await import('./a.ts')", 'a dynamic import'],
  ["export type B = import('./a.ts').A", 'the type of an import'],
])('%s closes a cycle: %s', line => {
  expect(importCircles([file('http/a.ts', "import { b } from './b.ts'"), file('http/b.ts', line)])).toEqual([
    'http/a.ts: is in a circle of imports with http/b.ts',
  ])
})

test('a cycle of tests is found too', () => {
  expect(importCircles([file('test/a.ts', "import './b/c.ts'"), file('test/b/c.ts', "import type { A } from '../a.ts'")])).toEqual([
    'test/a.ts: is in a circle of imports with test/b/c.ts',
  ])
})

test('two cycles that one file leads to are two findings, and starting a thread closes none', () => {
  const pair = (one: string, other: string) => [
    file(`http/${one}.ts`, `import './${other}.ts'`),
    file(`http/${other}.ts`, `import './${one}.ts'`),
  ]
  expect(importCircles([file('http/z.ts', "import './a.ts'", "import './c.ts'"), ...pair('a', 'b'), ...pair('c', 'd')])).toEqual([
    'http/a.ts: is in a circle of imports with http/b.ts',
    'http/c.ts: is in a circle of imports with http/d.ts',
  ])
  const starts = "new Worker(new URL('./b.ts', import.meta.url))"
  expect(importCircles([file('http/a.ts', starts), file('http/b.ts', "import './a.ts'")])).toEqual([])
})
