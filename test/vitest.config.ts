// How the tests run: `quick` is what every commit passes, `slow` are the whole-process suites (`*.slow.test.ts`).

import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitest/config'

const root = fileURLToPath(new URL('..', import.meta.url))

/** What is polled for comes at once on a quiet machine; on a busy one it may take its time. */
const polling = { poll: { timeout: 15_000 } }

export default defineConfig({
  root,
  test: {
    pool: 'forks',
    // A core each: vitest keeps one for itself, which of two leaves a single worker.
    maxWorkers: '100%',
    passWithNoTests: false,
    globalSetup: 'test/servers/run-setup.ts',
    projects: [
      {
        root,
        test: {
          name: 'quick',
          pool: 'forks',
          include: ['test/**/*.test.ts'],
          exclude: ['test/**/*.slow.test.ts'],
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
