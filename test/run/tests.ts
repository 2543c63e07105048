// The tests of one project, run by vitest in this process, so that they are counted from its results and not from its words.

import { fileURLToPath } from 'node:url'
import type { Reporter, SerializedError, TestModule, TestSuite } from 'vitest/node'
import { startVitest } from 'vitest/node'
import type { Count } from './count.ts'

const projectConfig = fileURLToPath(new URL('../vitest.config.ts', import.meta.url))

/**
 * @param project `quick` or `slow`, with those whose names begin with it
 * @param filters parts of paths; none is all
 * @param config of the project, unless a test says otherwise
 */
export async function runTests(project: string, filters: readonly string[], config = projectConfig): Promise<Count> {
  let count: Count = { passed: 0, failed: 0, skipped: 0 }
  const counter: Reporter = {
    onTestRunEnd(modules, errors) {
      count = countOf(modules, errors)
    },
  }
  console.log(`\n${project} tests`)
  const vitest = await startVitest([...filters], {
    config,
    project: [`${project}*`],
    run: true,
    watch: false,
    passWithNoTests: true,
    reporters: ['default', counter],
  })
  await vitest.close()
  return count
}

/** A module or a suite that failed outside its tests (an import, a hook), and an error that no test caught, is a failed test each. */
export function countOf(modules: readonly TestModule[], errors: readonly SerializedError[]): Count {
  let passed = 0
  let failed = errors.length
  let skipped = 0
  const suites = (parent: TestModule | TestSuite): (TestModule | TestSuite)[] => [parent, ...[...parent.children.suites()].flatMap(suites)]
  for (const module of modules) {
    failed += suites(module).filter(suite => suite.errors().length > 0).length
    for (const test of module.children.allTests()) {
      const { state } = test.result()
      if (state === 'passed') passed++
      else if (state === 'skipped') skipped++
      else failed++
    }
  }
  return { passed, failed, skipped }
}
