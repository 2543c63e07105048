// Runs the tests of one project with vitest in this process, to count its results and not parse its output.

import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Reporter, SerializedError, TestModule, TestSuite } from 'vitest/node'
import { startVitest } from 'vitest/node'
import type { Count } from './count.ts'

const projectConfig = fileURLToPath(new URL('../vitest.config.ts', import.meta.url))

/**
 * @param project `quick` or `slow`, and those whose names begin with it
 * @param filters parts of paths; none means all
 * @param config of the project; a test may use another
 */
export async function runTests(project: string, filters: readonly string[], config = projectConfig): Promise<Count> {
  let count: Count = { passed: 0, failed: 0, skipped: 0 }
  const counter: Reporter = {
    onTestRunEnd(modules, errors) {
      count = countOf(modules, errors)
      console.log(costsOf(modules.map(module => ({ path: module.relativeModuleId, ms: module.diagnostic().duration }))).join('\n'))
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

export interface FileCost {
  /** From the project's root: `test/sinks/postgres/write.test.ts`. */
  readonly path: string
  readonly ms: number
}

/** The total time of each folder, and the ten slowest files, each in seconds. */
export function costsOf(files: readonly FileCost[]): string[] {
  const byFolder = Map.groupBy(files, ({ path }) => dirname(path).split('/').slice(0, 3).join('/'))
  const folders = [...byFolder].map(([path, of]) => ({ path, ms: of.reduce((sum, { ms }) => sum + ms, 0) }))
  const listed = (some: readonly FileCost[]): string[] =>
    some
      .toSorted((left, right) => right.ms - left.ms)
      .slice(0, listedMax)
      .map(({ path, ms }) => `${(ms / 1000).toFixed(1).padStart(8)} s  ${path}`)
  return ['\nThe folders that took longest', ...listed(folders), 'The files that took longest', ...listed(files)]
}

const listedMax = 10

/** A module or a suite that failed outside its tests (an import, a hook), and an uncaught error, count as a failed test each. */
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
