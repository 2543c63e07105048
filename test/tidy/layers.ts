// Who may import whom: the folders are layers, and data flows through them one way.

import { posix } from 'node:path'
import { type Finding, isCode, isProduct, type SourceFile } from './files.ts'

const readersMayImport = ['config/', 'control-plane/client.ts', 'transformers/json/exact-json.ts', 'transformers/json/unflatten.ts']

/** What the code of a folder may import beside the folder itself: prefixes of paths. The longest prefix of a path is its rule. */
const allowed: Readonly<Record<string, readonly string[]>> = {
  'config/': [],
  // What the engine's own parser reads wrongly, wherever foreign JSON comes in.
  'config/http/': ['transformers/json/exact-json.ts'],
  'transformers/': [],
  'sinks/': [
    'transformers/record-batch.ts',
    'transformers/json/flatten.ts',
    'config/postgres/',
    'config/aborting.ts',
    'config/decimal-bytes.ts',
    'config/option-variable.ts',
  ],
  'readers/': readersMayImport,
  // How a store's rows lie, and how it is connected to, is said once: by its sink.
  'readers/cassandra/': [...readersMayImport, 'sinks/sink-error.ts', 'sinks/cassandra/'],
  'readers/influxdb/': [...readersMayImport, 'sinks/sink-error.ts', 'sinks/influxdb/'],
  'readers/postgres/': [...readersMayImport, 'sinks/postgres/'],
  'readers/mongodb/': [...readersMayImport, 'sinks/sink-error.ts', 'sinks/mongodb/'],
  // What is not stored yet comes from the log, by one door, in the batches that sinks take.
  'readers/live/': [...readersMayImport, 'pipeline/live/messages.ts', 'transformers/record-batch.ts', 'transformers/json/json-text.ts'],
  'pipeline/': ['config/', 'transformers/', 'sinks/'],
  'pipeline/ingest/': ['config/', 'transformers/', 'sinks/', 'pipeline/', 'control-plane/client.ts'],
  'control-plane/': ['config/'],
  // Tools of the command line show what the pure parts do.
  'bin/': ['main.ts', 'config/', 'transformers/'],
}

/** These put everything together. */
const wiring = new Set(['main.ts', 'up.ts', 'up-options.ts'])
const wiringFolder = 'roles/'

/** The stores' folders know nothing of each other. */
const stores = /^(sinks|readers)\/([^/]+)\/./

/** Drivers are loaded when they are needed: who uses one store pays for no other. */
const drivers = [
  'pg',
  'pg-copy-streams',
  '@electric-sql/pglite',
  'kafkajs',
  '@platformatic/kafka',
  '@platformatic/wasm-utils',
  '@kafkajs/confluent-schema-registry',
  'cassandra-driver',
  'mongodb',
  'bson',
  '@peculiar/x509',
  'reflect-metadata',
]

export interface Import {
  /** As it is written: `../sink.ts`, `node:fs`, `pg`. */
  readonly specifier: string
  readonly line: number
  readonly kind: 'static' | 'type' | 'dynamic'
}

/** Everything that a file imports, also by `import()` and by `new URL(…, import.meta.url)`. */
export function importsOf(text: string): Import[] {
  const found: Import[] = []
  const patterns: [RegExp, Import['kind'] | undefined][] = [
    [/^(?:import|export)\s(?:[^'";]*?\sfrom\s)?'([^']+)'/gm, undefined],
    [/\bimport\(\s*'([^']+)'/g, 'dynamic'],
    [/\bnew URL\(\s*'(\.[^']+\.[jt]s)',\s*import\.meta\.url/g, 'dynamic'],
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
    if (kind === 'static' && drivers.includes(specifier))
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
