// Combines the outages of all workers: however many there are, one line a minute says that the store is down.

import type { MessagePort } from 'node:worker_threads'
import { factOf, type OutageReport, type Outages } from '../../../config/outage.ts'
import type { WriterDependency } from '../writer.ts'
import type { WorkerOutage } from './messages.ts'

/** In the worker: posts each change to the main thread, and nothing if nothing failed. */
export function postedOutages(port: Pick<MessagePort, 'postMessage'>): Outages<WriterDependency> {
  let parts = 0
  return {
    report(dependency) {
      const part = parts++
      let isFailing = false
      function post(change: WorkerOutage['change']): void {
        if (change.is !== 'failed' && !isFailing) return
        isFailing = change.is === 'failed'
        port.postMessage({ kind: 'outage', dependency, part, change } satisfies WorkerOutage)
      }
      return {
        failed: (error, next) => post({ is: 'failed', fact: factOf(error), next }),
        recovered: waitedMessages => post({ is: 'recovered', waitedMessages }),
        close: () => post({ is: 'closed' }),
      }
    },
  }
}

/** In the main thread: the reports of one worker, which end with its thread. */
export function openWorkerOutages(outages: Outages<WriterDependency>): { take(posted: WorkerOutage): void; close(): void } {
  const reports = new Map<number, OutageReport>()
  return {
    take({ dependency, part, change }) {
      const report = reports.get(part) ?? outages.report(dependency)
      reports.set(part, report)
      if (change.is === 'failed') report.failed(new Error(change.fact), change.next)
      else if (change.is === 'recovered') report.recovered(change.waitedMessages)
      else report.close()
    },
    close() {
      for (const report of reports.values()) report.close()
      reports.clear()
    },
  }
}
