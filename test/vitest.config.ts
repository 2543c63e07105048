// How the tests run: `quick` for every commit, `slow` for suites with servers and processes (`*.slow.test.ts`), and those that only run with
// `npm test -- --all` (`*.deep.test.ts`).

import { globSync, readFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitest/config'
import { isDeep } from './depth.ts'
import { LongestFirst } from './run/longest-first.ts'

const root = fileURLToPath(new URL('..', import.meta.url))

/** They count everything in their process, and so need their own. */
const countingAll = [
  'test/**/*hostile.test.ts',
  'test/pipeline/kafka/records/codecs.test.ts',
  'test/transformers/senml/cbor/cbor-items.test.ts',
]

const slowKinds = isDeep ? ['slow', 'deep'] : ['slow']
const slow = slowKinds.map(kind => `test/**/*.${kind}.test.ts`)

/** They measure the memory of processes of their own, which many others on the machine would slow down too much. */
const measuring = slowKinds.flatMap(kind => [`test/**/*memory.${kind}.test.ts`, `test/transformers/heap.${kind}.test.ts`])

/** Quick tests of the control plane use a PostgreSQL server, which costs half as much as the embedded database; here they use the latter. */
const quickOnDatabases = globSync('test/control-plane/**/*.test.ts', { cwd: root })
  .filter(path => !/\.(slow|deep)\.test\.ts$/.test(path))
  .filter(path => /^describe(OnDatabases|Platform)\(/m.test(readFileSync(join(root, path), 'utf8')))

/** Slow tests mostly wait, for servers and for time-outs: three of them keep two cores busy. */
const slowWorkers = Math.ceil(availableParallelism() * 1.5)

/** Polling succeeds immediately on a quiet machine; on a busy one it may take longer. */
const polling = { poll: { timeout: 60_000 } }
/** A test that hangs ends after this time, and no other is shorter: a busy machine takes ten times as long as a quiet one. */
const quickMsMax = 120_000
const slowMsMax = 480_000

const embedded = {
  root,
  test: {
    name: 'slow-embedded',
    pool: 'forks',
    restoreMocks: true,
    env: { TEST_DATABASES: 'embedded' },
    include: quickOnDatabases,
    isolate: false,
    testTimeout: quickMsMax,
    expect: polling,
    hookTimeout: quickMsMax,
    maxWorkers: slowWorkers,
    sequence: { groupOrder: 1 },
  },
} as const

export default defineConfig({
  root,
  test: {
    pool: 'forks',
    // One for each core: by default vitest keeps a core for itself, which leaves a single worker on two.
    maxWorkers: '100%',
    // Commands started by tests use cached compiled code, which halves their start.
    env: { NODE_COMPILE_CACHE: join(root, 'node_modules/.cache/compiled') },
    passWithNoTests: false,
    sequence: { sequencer: LongestFirst },
    globalSetup: 'test/servers/run-setup.ts',
    setupFiles: ['test/described-answers/setup.ts', 'test/longest-lists.ts'],
    projects: [
      {
        root,
        test: {
          name: 'quick',
          pool: 'forks',
          restoreMocks: true,
          env: { TEST_DATABASES: 'server' },
          include: ['test/**/*.test.ts'],
          exclude: ['test/**/*.{slow,deep}.test.ts', ...countingAll],
          // Files share a process and its loaded modules, which saves a third of the time.
          isolate: false,
          testTimeout: quickMsMax,
          expect: polling,
          hookTimeout: quickMsMax,
        },
      },
      {
        root,
        test: {
          name: 'quick-alone',
          pool: 'forks',
          restoreMocks: true,
          include: countingAll,
          testTimeout: quickMsMax,
          expect: polling,
          hookTimeout: quickMsMax,
        },
      },
      {
        root,
        test: {
          name: 'slow',
          pool: 'forks',
          restoreMocks: true,
          include: slow,
          exclude: measuring,
          testTimeout: slowMsMax,
          expect: polling,
          hookTimeout: slowMsMax,
          // Suites that damage a server have a separate one.
          maxWorkers: slowWorkers,
          sequence: { groupOrder: 1 },
        },
      },
      // The gate shows on the server what does not depend on the database.
      ...[embedded].filter(() => isDeep),
      {
        root,
        test: {
          name: 'slow-alone',
          pool: 'forks',
          restoreMocks: true,
          include: measuring,
          testTimeout: slowMsMax,
          expect: polling,
          hookTimeout: slowMsMax,
          sequence: { groupOrder: 2 },
        },
      },
    ],
  },
})
