// Counts the work of code for a test: how often its blocks ran, by the engine's own count instead of time.

import { Session } from 'node:inspector/promises'
import { afterAll, beforeAll } from 'vitest'

/**
 * Counts during the tests of the current suite.
 *
 * @param isCounted by a file's URL, whether its blocks count
 * @returns a function that returns how often they ran in total since its last call
 */
export function countWork(isCounted: (url: string) => boolean): () => Promise<number> {
  const session = new Session()

  beforeAll(async () => {
    session.connect()
    await session.post('Profiler.enable')
    await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: true })
  })

  afterAll(async () => {
    await session.post('Profiler.stopPreciseCoverage')
    session.disconnect()
  })

  return async () => {
    const { result } = await session.post('Profiler.takePreciseCoverage')
    const counted = result.filter(({ url }) => isCounted(url))
    return counted.flatMap(({ functions }) => functions.flatMap(({ ranges }) => ranges)).reduce((sum, { count }) => sum + count, 0)
  }
}
