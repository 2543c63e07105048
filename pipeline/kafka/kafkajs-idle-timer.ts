// Takes the idle timer out of kafkajs 2.2.4: each connection of it wakes the process every millisecond, for ever.
//
// After every answer its request queue schedules a look at what is pending, and that look schedules the next, also when nothing is
// pending; its wait is then below zero, which Node makes a millisecond. Here nothing is scheduled while nothing is pending.
// Nothing is missed by that: a request that has to wait is pending before it schedules the look.

import { createRequire } from 'node:module'
import { SystemicError } from '../systemic-error.ts'

/** The one that was read and is patched. */
const version = '2.2.4'

interface RequestQueue {
  readonly pending: readonly unknown[]
  scheduleCheckPendingRequests: (this: RequestQueue) => void
}

const patched = Symbol.for('sluice.kafkajs-idle-timer')

/**
 * Applies the patch, once in a process; connections that are open already have it, too.
 *
 * @throws SystemicError for another kafkajs, of which nobody knows whether the patch fits
 */
export function restRequestQueues(): void {
  const require = createRequire(import.meta.url)
  const found = (require('kafkajs/package.json') as { version: string }).version
  if (found !== version) {
    throw new SystemicError(
      `kafkajs ${found} is installed, and its request queue is patched as that of ${version}: install that one, or look at the patch`,
    )
  }
  const { prototype } = require('kafkajs/src/network/requestQueue') as { prototype: RequestQueue & { [patched]?: true } }
  if (prototype[patched] === true) return
  const schedule = prototype.scheduleCheckPendingRequests
  prototype.scheduleCheckPendingRequests = function (this: RequestQueue): void {
    if (this.pending.length > 0) schedule.call(this)
  }
  prototype[patched] = true
}
