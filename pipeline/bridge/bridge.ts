// Reads a broker until a stop: connects again, for ever, whenever a connection ends.

import { pause } from '../../config/aborting.ts'
import type { Logger } from '../../config/logger.ts'
import type { OutageReport } from '../../config/outage.ts'
import { type ConnectionParts, serveConnection } from './connection.ts'

export interface BridgeParts extends Omit<ConnectionParts, 'onSubscribed'> {
  readonly outage: OutageReport
  readonly logger: Pick<Logger, 'info' | 'warn'>
}

export interface Bridge {
  /** @throws Error with the reason if messages cannot come now */
  check(): Promise<void>
  /** Resolves after `signal` aborted, when what was taken is stored and acknowledged. */
  readonly stopped: Promise<void>
}

const waitMsMin = 100
const waitMsMax = 10_000

export function openBridge({ outage, logger, ...parts }: BridgeParts, signal: AbortSignal): Bridge {
  let absence: unknown = new Error('the bridge is connecting')
  let wasConnected = false

  function onSubscribed(isResumed: boolean): void {
    absence = undefined
    outage.recovered()
    if (wasConnected && !isResumed)
      logger.warn('the broker has lost the session: messages that it accepted meanwhile may be missing, see broker.session_expiry_seconds')
    wasConnected = true
    logger.info({ topics: parts.options.topics, resumed: isResumed }, 'subscribed at the broker')
  }

  async function run(): Promise<void> {
    for (let waitMs = waitMsMin; !signal.aborted; waitMs = Math.min(2 * waitMs, waitMsMax)) {
      const startedMs = performance.now()
      try {
        await serveConnection({ ...parts, onSubscribed }, signal)
      } catch (error) {
        absence = error
        // One that has stood for a while is not the same failure again.
        if (performance.now() - startedMs > waitMsMax) waitMs = waitMsMin
        if (signal.aborted) return
        outage.failed(error, { waitMs })
        await pause(waitMs, signal)
      }
    }
  }

  return {
    async check() {
      if (absence !== undefined) throw absence
    },
    stopped: run(),
  }
}
