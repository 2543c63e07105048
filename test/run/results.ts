// The results of test files: their counts, the ones to run again, and the result of the run.

/** One test file, or one of the checks. */
export interface FileResult {
  /** From the project's root: `test/sinks/postgres/write.test.ts`. Empty for an error outside of any file. */
  readonly path: string
  /** Of `vitest.config.ts`. */
  readonly project: string
  readonly passed: number
  readonly failed: number
  readonly skipped: number
  /** Each failure in full, with the name of its test; the first line says what. */
  readonly failures: readonly string[]
  /** As of `performance.now()`. */
  readonly startMs: number
  readonly endMs: number
}

/** A file that failed first and passed when it ran again, alone. */
export interface Flaky {
  readonly path: string
  readonly firstFailure: string
}

/** More files than this that fail first and pass later fail the run. */
export const flakyMax = 3

/** @returns the results, with those of second runs in place of the first, and the files that passed only then */
export function settle(first: readonly FileResult[], again: readonly FileResult[]): { settled: FileResult[]; flaky: Flaky[] } {
  const isSame = (one: FileResult, other: FileResult): boolean => one.path === other.path && one.project === other.project
  const settled = [
    ...first.map(result => again.find(other => isSame(result, other)) ?? result),
    // An error that belongs to no file.
    ...again.filter(result => !first.some(other => isSame(result, other))),
  ]
  const flaky = first
    .filter(result => result.failed > 0 && settled.some(other => isSame(result, other) && other.failed === 0))
    .map(({ path, failures }) => ({ path, firstFailure: failures[0]!.replace(`${path} > `, '').split('\n', 2).join(': ') }))
  return { settled, flaky }
}

/**
 * The last line of a run, and whether it is a success. A run in which nothing was executed is not.
 *
 * @param strict a skipped test counts as failed, because skips in continuous integration go unnoticed
 */
export function resultOf(results: readonly FileResult[], flaky: readonly Flaky[], strict: boolean): { line: string; ok: boolean } {
  const sum = (key: 'passed' | 'failed' | 'skipped'): number => results.reduce((total, result) => total + result[key], 0)
  const tooFlaky = flaky.length > flakyMax ? flaky.length : 0
  const failed = sum('failed') + tooFlaky + (strict ? sum('skipped') : 0)
  const skipped = strict ? 0 : sum('skipped')
  const line = `${sum('passed')} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`
  return { line, ok: failed === 0 && sum('passed') > 0 }
}

/** What a run prints at its end, before its last line. */
export function summaryOf(results: readonly FileResult[], flaky: readonly Flaky[]): string[] {
  const failures = results.flatMap(({ failures }) => failures)
  const tooMany = flaky.length > flakyMax ? [`${flaky.length} flaky files are more than ${flakyMax}: each counts as failed`] : []
  return [
    ...(failures.length === 0 ? [] : ['\nFailures', ...failures.map(text => `\nFAIL ${text}`)]),
    '',
    ...flaky.map(({ path, firstFailure }) => `flaky: ${path}: ${firstFailure}`),
    ...tooMany,
    'The files that took longest',
    ...results
      .toSorted((left, right) => right.endMs - right.startMs - (left.endMs - left.startMs))
      .slice(0, 10)
      .map(({ path, startMs, endMs }) => `${((endMs - startMs) / 1000).toFixed(1).padStart(8)} s  ${path}`),
  ]
}
