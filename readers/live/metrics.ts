// What live streams tell of themselves, for whoever counts it.

import type { EndReason } from './events.ts'

export interface LiveMetrics {
  opened(): void
  /** @param reason `left`: the client went away */
  closed(reason: EndReason | 'left'): void
  /** A stream was told that records are no longer in the log. */
  lost(): void
}
