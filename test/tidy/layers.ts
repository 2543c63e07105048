// The layers: which folders may import which. Data flows through them one way, and there are no import cycles.

import { posix } from 'node:path'
import { type Finding, isCode, isProduct, type SourceFile } from './files.ts'

const readersMayImport = [
  'config/',
  'http/',
  'database/',
  'control-plane/client.ts',
  'transformers/json/canonical.ts',
  'transformers/json/exact-json.ts',
  'transformers/json/unflatten.ts',
  'transformers/json/path.ts',
  'transformers/json/times/rfc3339.ts',
  'transformers/time-units.ts',
  'transformers/uuid.ts',
]

/** What the code of a folder may import besides the folder itself: prefixes of paths. The longest matching prefix is its rule. */
const allowed: Readonly<Record<string, readonly string[]>> = {
  'config/': [],
  'database/': ['config/'],
  // What the engine's own parser reads wrongly, and why it refuses a text, wherever foreign JSON comes in; and the times of requests.
  'http/': ['config/', 'database/', 'transformers/json/exact-json.ts', 'transformers/json/times/rfc3339.ts', 'transformers/excerpt.ts'],
  'transformers/': [],
  'sinks/': [
    'transformers/record-batch.ts',
    'transformers/log-partition.ts',
    'transformers/json/canonical.ts',
    'transformers/json/flatten.ts',
    'transformers/json/json-text.ts',
    'transformers/time-units.ts',
    'transformers/uuid.ts',
    'database/',
    'config/aborting.ts',
    'config/bounded-map.ts',
    'config/decimal-bytes.ts',
    'config/each-at-once.ts',
    'config/options/variable.ts',
  ],
  'readers/': readersMayImport,
  // The layout of a store's rows and its connection are defined once: by its sink.
  'readers/cassandra/': [...readersMayImport, 'sinks/sink-error.ts', 'sinks/cassandra/'],
  'readers/influxdb/': [...readersMayImport, 'sinks/sink-error.ts', 'sinks/influxdb/'],
  'readers/postgres/': [...readersMayImport, 'sinks/postgres/'],
  'readers/mongodb/': [...readersMayImport, 'sinks/sink-error.ts', 'sinks/mongodb/'],
  // Messages that are not stored yet come from the log, through two files, in batches like those of sinks.
  'readers/live/': [
    ...readersMayImport,
    'pipeline/live/messages.ts',
    'pipeline/live/rights.ts',
    'transformers/record-batch.ts',
    'transformers/json/json-text.ts',
  ],
  'pipeline/': ['config/', 'http/', 'database/', 'transformers/', 'sinks/'],
  'pipeline/live/': ['config/', 'http/', 'transformers/', 'pipeline/', 'control-plane/client.ts'],
  'pipeline/ingest/': ['config/', 'http/', 'transformers/', 'sinks/', 'pipeline/', 'control-plane/client.ts'],
  'pipeline/mqtt/': ['config/', 'http/', 'transformers/', 'pipeline/', 'control-plane/client.ts'],
  'control-plane/': ['config/', 'http/', 'database/', 'transformers/json/times/rfc3339.ts', 'transformers/uuid.ts'],
  // A page over the API; what only `up` shows there, it hands in.
  'console/': ['http/', 'config/', 'database/', 'control-plane/client.ts', 'pipeline/', 'sinks/audit.ts', 'transformers/'],
  // Command-line tools for the pure parts.
  'bin/': ['main.ts', 'config/', 'http/', 'transformers/'],
  // Programs that build images and releases, before anything is installed.
  'deploy/': [],
}

/** These connect all parts. */
const wiring = new Set(['main.ts', 'commands.ts', 'up.ts', 'up-options.ts'])
const wiringFolder = 'roles/'

/** The stores' folders are independent of each other. */
const stores = /^(sinks|readers)\/(cassandra|influxdb|live|mongodb|postgres)\/./

/** Imported as it is in its folder, which what runs without Kafka loads on demand: `loadedAtOnce`. */
const kafkaClient = '@platformatic/kafka'
const kafkaFolder = 'pipeline/kafka/'
const withoutKafka = ['commands.ts', 'up.ts', 'roles/api/api.ts', 'roles/ingest/ingest.ts', 'roles/reader/reader.ts']

/** Drivers are loaded on demand: a user of one store does not load the others'. */
const drivers = [
  'pg',
  'pg-copy-streams',
  '@electric-sql/pglite',
  kafkaClient,
  '@platformatic/wasm-utils',
  'kafkajs',
  '@kafkajs/confluent-schema-registry',
  'cassandra-driver',
  'mongodb',
  'mqtt',
  'bson',
  '@peculiar/x509',
  'reflect-metadata',
]

export interface Import {
  /** As written: `../sink.ts`, `node:fs`, `pg`. */
  readonly specifier: string
  readonly line: number
  /** `dynamic` is `import()`, as a call or as a type; `thread` is the entry file of a worker thread. */
  readonly kind: 'static' | 'type' | 'dynamic' | 'thread'
}

/** Everything that a file imports, also by `import()` and by `new URL(…, import.meta.url)`. */
export function importsOf(text: string): Import[] {
  const found: Import[] = []
  const patterns: [RegExp, Import['kind'] | undefined][] = [
    [/^(?:import|export)\s(?:[^'";]*?\sfrom\s)?'([^']+)'/gm, undefined],
    [/\bimport\(\s*'([^']+)'/g, 'dynamic'],
    [/\bnew URL\(\s*'(\.[^']+\.[jt]s)',\s*import\.meta\.url/g, 'thread'],
  ]
  for (const [pattern, kind] of patterns) {
    for (const match of text.matchAll(pattern)) {
      const line = text.slice(0, match.index).split('\n').length
      found.push({ specifier: match[1]!, line, kind: kind ?? (/^(import|export)\s+type\s/.test(match[0]) ? 'type' : 'static') })
    }
  }
  return found
}

export function layers(files: readonly SourceFile[]): Finding[] {
  return files
    .filter(file => isCode(file) && isProduct(file))
    .flatMap(file => importsOf(file.text).flatMap(one => problemsOf(file.path, one)))
}

function problemsOf(path: string, { specifier, line, kind }: Import): Finding[] {
  const finding = (problem: string): Finding[] => [`${path}:${line}: ${problem}`]
  if (!specifier.startsWith('.')) {
    if (path.startsWith('transformers/') && !specifier.startsWith('node:')) {
      return finding(`a transformer imports ${specifier}: it is pure, and loads in a worker without a package`)
    }
    if (kind === 'static' && drivers.includes(specifier) && !(specifier === kafkaClient && path.startsWith(kafkaFolder)))
      return finding(`the driver ${specifier} is imported at once: load it by import() where it is opened`)
    return []
  }
  const target = posix.normalize(posix.join(posix.dirname(path), specifier))
  if (/^(test|benchmarks)\//.test(target)) return finding(`imports ${target}: nothing but tests and benchmarks may`)
  const [, side, store] = stores.exec(path) ?? []
  const [, otherSide, otherStore] = stores.exec(target) ?? []
  if (store !== undefined && side === otherSide && store !== otherStore)
    return finding(`imports ${target}: no store's folder knows another's`)
  if (wiring.has(path) || path.startsWith(wiringFolder)) return []
  const rule = Object.keys(allowed)
    .filter(prefix => path.startsWith(prefix))
    .sort((left, right) => right.length - left.length)[0]
  if (rule === undefined) return finding(`stands in no layer: give its folder a rule in test/tidy/layers.ts`)
  const own = path.slice(0, path.indexOf('/') + 1)
  if ([own, ...allowed[rule]!].some(prefix => target.startsWith(prefix))) return []
  return finding(`imports ${target}: ${rule} may import ${[own, ...allowed[rule]!].join(', ')}`)
}

/** The files with the client of Kafka that a program or role loads at its start, though it may run without Kafka. */
export function loadedAtOnce(files: readonly SourceFile[], starts: readonly string[] = withoutKafka): Finding[] {
  const imports = new Map(files.filter(isCode).map(({ path, text }) => [path, importsOf(text).filter(({ kind }) => kind === 'static')]))
  const by = new Map(starts.map(path => [path, path]))
  // Grows while it is walked.
  for (const [path, start] of by) {
    for (const { specifier } of imports.get(path) ?? []) {
      if (specifier === kafkaClient) return [`${path}: ${start} loads it at its start, and with it the client of Kafka: import() it`]
      const target = posix.join(posix.dirname(path), specifier)
      if (specifier.startsWith('.') && !by.has(target)) by.set(target, start)
    }
  }
  return []
}

/**
 * Files that import each other, directly or through others, also for types only or by `import()`: each strongly connected component of the
 * imports (Tarjan 1972) once. A worker thread loads its own modules, so starting one closes no cycle.
 */
export function importCircles(files: readonly SourceFile[]): Finding[] {
  const code = files.filter(isCode)
  const paths = new Set(code.map(({ path }) => path))
  const imports = new Map(
    code.map(({ path, text }) => [
      path,
      importsOf(text)
        .filter(({ kind, specifier }) => kind !== 'thread' && specifier.startsWith('.'))
        .map(({ specifier }) => posix.normalize(posix.join(posix.dirname(path), specifier)))
        .filter(target => paths.has(target)),
    ]),
  )
  const circles: string[][] = []
  const order = new Map<string, number>()
  const open: string[] = []

  /** @returns the lowest order of an open file to which this one leads */
  function visit(path: string): number {
    const own = order.size
    order.set(path, own)
    open.push(path)
    let lowest = own
    for (const target of imports.get(path)!) {
      if (!order.has(target)) lowest = Math.min(lowest, visit(target))
      else if (open.includes(target)) lowest = Math.min(lowest, order.get(target)!)
    }
    if (lowest < own) return lowest
    const members = open.splice(open.indexOf(path))
    if (members.length > 1 || imports.get(path)!.includes(path)) circles.push(members)
    return lowest
  }

  for (const path of imports.keys()) if (!order.has(path)) visit(path)
  return circles.map(members => {
    const sorted = members.toSorted()
    return `${sorted[0]}: is in a circle of imports with ${sorted.length === 1 ? 'itself' : sorted.slice(1).join(', ')}`
  })
}
