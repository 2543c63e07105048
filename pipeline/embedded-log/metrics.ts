// How full the files of embedded logs are.

import { statfsSync } from 'node:fs'
import { Gauge, type Registry } from 'prom-client'
import { type LogFile, pragma } from './file.ts'

/** @param files by dependency: `log` */
export function logMetrics(registry: Registry, files: Readonly<Record<string, Pick<LogFile, 'database' | 'path'>>>): void {
  const used = new Gauge({
    name: 'log_used_ratio',
    help: 'How full the embedded log is, from 0 to 1: of `log.file_bytes`, or of what it has and its disk has left, if that is less; NaN while that is unknown.',
    labelNames: ['dependency'],
    registers: [],
    collect() {
      for (const [dependency, file] of Object.entries(files)) this.set({ dependency }, usedRatioOf(file))
    },
  })
  registry.registerMetric(used)
}

function usedRatioOf({ database, path }: Pick<LogFile, 'database' | 'path'>): number {
  try {
    const pageBytes = pragma(database, 'page_size')
    const usedBytes = (pragma(database, 'page_count') - pragma(database, 'freelist_count')) * pageBytes
    const { bavail, bsize } = statfsSync(path)
    return usedBytes / Math.min(pragma(database, 'max_page_count') * pageBytes, usedBytes + bavail * bsize)
  } catch {
    // The other metrics are still reported.
    return Number.NaN
  }
}
