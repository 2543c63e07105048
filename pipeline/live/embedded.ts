// The embedded log as a live topic: its commits call, and nothing is asked in between.

import type { EmbeddedLog } from '../embedded-log/log.ts'
import { openEmbeddedTopicReader } from '../embedded-log/topic-reader.ts'
import type { LiveTopic } from './topic.ts'

/** @param log stays the caller's, and is open for longer */
export function embeddedLiveTopic(log: EmbeddedLog): LiveTopic {
  return {
    open: async () => openEmbeddedTopicReader(log, 'dead-letter'),
    onAppend: listener => log.onAppend(listener),
  }
}
