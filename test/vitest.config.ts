// How the tests run: `quick` is what every commit passes, `slow` are the whole-process suites (`*.slow.test.ts`).

import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitest/config'

const root = fileURLToPath(new URL('..', import.meta.url))

/** They count all that their process does, or holds, and have one of their own. */
const countingAll = ['test/**/*hostile.test.ts', 'test/pipeline/kafka/codecs.test.ts', 'test/transformers/senml/cbor-items.test.ts']

/** What is polled for comes at once on a quiet machine; on a busy one it may take its time. */
const polling = { poll: { timeout: 15_000 } }

export default defineConfig({
  root,
  test: {
    pool: 'forks',
    // A core each: vitest keeps one for itself, which of two leaves a single worker.
    maxWorkers: '100%',
    // Commands that tests start find their code compiled, which halves the time until they begin.
    env: { NODE_COMPILE_CACHE: join(root, 'node_modules/.cache/compiled') },
    passWithNoTests: false,
    globalSetup: 'test/servers/run-setup.ts',
    setupFiles: 'test/described-answers/setup.ts',
    projects: [
      {
        root,
        test: {
          name: 'quick',
          pool: 'forks',
          include: ['test/**/*.test.ts'],
          exclude: ['test/**/*.slow.test.ts', ...countingAll],
          // Files share a process and what it has loaded, which takes a third of the time away.
          isolate: false,
          testTimeout: 30_000,
          expect: polling,
          hookTimeout: 60_000,
        },
      },
      {
        root,
        test: {
          name: 'quick-alone',
          pool: 'forks',
          include: countingAll,
          testTimeout: 30_000,
          expect: polling,
          hookTimeout: 60_000,
        },
      },
      {
        root,
        test: {
          name: 'slow',
          pool: 'forks',
          include: ['test/**/*.slow.test.ts'],
          testTimeout: 240_000,
          expect: polling,
          hookTimeout: 240_000,
          fileParallelism: false,
        },
      },
    ],
  },
})
