// What live messages ask of a log: looks into its topic, and a call when there may be something new.

import type { TopicReader } from '../topic-reader.ts'

export interface LiveTopic {
  /** @throws LogUnavailableError, SystemicError */
  open(): Promise<TopicReader>
  /** Calls `listener` when there may be new messages, also where there are none. Returns the way to stop. */
  onAppend(listener: () => void): () => void
  /** How often it is opened anew to see whether it got partitions or was made anew; left out where neither can be. */
  readonly lookAgainMs?: number
}
