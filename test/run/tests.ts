// Runs the tests of one project with vitest in this process, to have its results and not parse its output.

import { fileURLToPath } from 'node:url'
import type { Reporter, SerializedError, TestModule, TestSuite } from 'vitest/node'
import { startVitest } from 'vitest/node'
import type { FileResult } from './results.ts'

const projectConfig = fileURLToPath(new URL('../vitest.config.ts', import.meta.url))

/**
 * @param project a name in the configuration, or several with a star: `slow*`
 * @param filters parts of paths; none means all
 * @param config of the project; a test may use another
 */
export async function runTests(project: string, filters: readonly string[], config = projectConfig): Promise<FileResult[]> {
  const startedMs = performance.now()
  const ends = new Map<TestModule, number>()
  let results: FileResult[] = []
  const recorder: Reporter = {
    onTestModuleEnd: module => void ends.set(module, performance.now()),
    onTestRunEnd(modules, errors) {
      const nowMs = performance.now()
      const byFile = Map.groupBy(errors, error => fileOf(error, modules))
      results = modules.map(module => {
        const uncaught = byFile.get(module.moduleId) ?? []
        byFile.delete(module.moduleId)
        return resultOf(module, uncaught, ends.get(module) ?? nowMs)
      })
      const failures = [...byFile].flatMap(([path = 'no file', some]) => some.map(error => `${path} > ${uncaughtName}\n${textOf(error)}`))
      if (failures.length > 0)
        results.push({ path: '', project: '', passed: 0, failed: failures.length, skipped: 0, failures, startMs: startedMs, endMs: nowMs })
    },
  }
  const vitest = await startVitest([...filters], {
    config,
    project: [project],
    run: true,
    watch: false,
    passWithNoTests: true,
    reporters: ['default', recorder],
  })
  await vitest.close()
  return results
}

const uncaughtName = 'an error that no test caught'

/** Vitest says in which file an error was thrown that no test caught, if it knows; where a worker ended, only its sentence names the file. */
function fileOf(error: SerializedError, modules: readonly TestModule[]): string | undefined {
  return (
    (error as { VITEST_TEST_PATH?: string }).VITEST_TEST_PATH ?? modules.find(({ moduleId }) => textOf(error).includes(moduleId))?.moduleId
  )
}

/** A suite that failed outside its tests (an import, a hook) counts as a failed test, and so do an uncaught error and a test that did not end. */
function resultOf(module: TestModule, uncaught: readonly SerializedError[], endMs: number): FileResult {
  const path = module.relativeModuleId
  const failures: string[] = []
  const fail = (name: string, errors: readonly SerializedError[]): void => {
    failures.push(`${path} > ${name}\n${errors.map(textOf).join('\n')}`)
  }
  const suites = (parent: TestModule | TestSuite): (TestModule | TestSuite)[] => [parent, ...[...parent.children.suites()].flatMap(suites)]
  for (const suite of suites(module)) {
    const errors = suite.errors()
    if (errors.length > 0) fail(suite.type === 'suite' ? suite.fullName : 'outside its tests', errors)
  }
  for (const error of uncaught) fail(uncaughtName, [error])
  // Vitest reports a file as begun when it is queued, which may be long before it runs.
  const { prepareDuration, environmentSetupDuration, setupDuration, collectDuration, duration } = module.diagnostic()
  const startMs = endMs - (prepareDuration + environmentSetupDuration + setupDuration + collectDuration + duration)
  let passed = 0
  let skipped = 0
  for (const test of module.children.allTests()) {
    const { state, errors } = test.result()
    if (state === 'passed') passed++
    else if (state === 'skipped') skipped++
    else fail(test.fullName, errors ?? [])
  }
  return { path, project: module.project.name, passed, failed: failures.length, skipped, failures, startMs, endMs }
}

function textOf(error: SerializedError): string {
  const { name, message, stack, diff, cause } = error as {
    name?: string
    message: string
    stack?: string
    diff?: string
    cause?: SerializedError
  }
  const frames = (stack ?? '').split('\n').filter(line => line.trimStart().startsWith('at ') && !line.includes('/node_modules/'))
  return [
    `${name ?? 'Error'}: ${message}`,
    ...(diff === undefined ? [] : [diff]),
    ...frames.slice(0, 8),
    // Vitest begins its name with "Caused by".
    ...(cause === undefined ? [] : [textOf(cause)]),
  ].join('\n')
}
