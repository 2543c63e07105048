// The metrics of each process: those of Node.js, and how much of its memory it uses.

import { totalmem } from 'node:os'
import { getHeapStatistics } from 'node:v8'
import { collectDefaultMetrics, Gauge, type Registry } from 'prom-client'

export function processMetrics(registry: Registry): void {
  collectDefaultMetrics({ register: registry })
  memoryMetrics(registry)
}

export function memoryMetrics(registry: Registry): void {
  const used = new Gauge({
    name: 'memory_used_ratio',
    help: "The part of its memory that the process uses, from 0 to 1: of the container's or the machine's, or of the heap of JavaScript, whichever is more.",
    registers: [],
    collect() {
      // 0 without a limit.
      const bytesMax = Math.min(process.constrainedMemory() || Number.POSITIVE_INFINITY, totalmem())
      const heap = getHeapStatistics()
      this.set(Math.max(process.memoryUsage.rss() / bytesMax, heap.used_heap_size / heap.heap_size_limit))
    },
  })
  registry.registerMetric(used)
}
