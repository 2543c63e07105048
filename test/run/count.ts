// The number of passed, failed and skipped tests, and the result of the run.

export interface Count {
  readonly passed: number
  readonly failed: number
  readonly skipped: number
}

export const emptyCount: Count = { passed: 0, failed: 0, skipped: 0 }

export function add(left: Count, right: Count): Count {
  return { passed: left.passed + right.passed, failed: left.failed + right.failed, skipped: left.skipped + right.skipped }
}

/**
 * The last line of a run, and whether it is a success. A run in which nothing was executed is not.
 *
 * @param strict a skipped test counts as failed, because skips in continuous integration go unnoticed
 */
export function resultOf(count: Count, strict: boolean): { line: string; ok: boolean } {
  const { passed, failed, skipped } = strict ? { ...count, failed: count.failed + count.skipped, skipped: 0 } : count
  const line = `${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`
  return { line, ok: failed === 0 && passed > 0 }
}
