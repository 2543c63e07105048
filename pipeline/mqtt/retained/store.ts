// Retained messages: of each topic the newest message that was published with the retain flag (MQTT 5 §3.3.1.3), in a compacted topic.
//
// A retained message is one of the log like any other, and is kept once the log has it: the one that is later in the log is the newer one, whoever is first
// to save it. All are in memory.

import type { OpenCompactedTopic } from '../../compacted-topic.ts'
import { LogUnavailableError } from '../../log.ts'
import { openRetainedRecords, type RetainedMessage, type RetainedTopic, recordName, recordOf } from './records.ts'

export type RetainedStore = ReturnType<typeof openRetained>

/** Until the topic was read, calls wait for it; while it is away, they reject. @param topicsMax of one channel */
export function openRetained(openTopic: OpenCompactedTopic, topicsMax: number) {
  const records = openRetainedRecords(topicsMax)
  const { get, check, messagesOf, channels, later } = records
  const topic = openTopic({
    name: 'mqtt-retained',
    what: 'retained messages of MQTT',
    onRecord: (name, _offset, record) => records.apply(name, record),
    onLost: () => records.removeAll(),
    unavailable: cause =>
      new LogUnavailableError(`the retained messages of MQTT cannot be read or saved: ${(cause as Error).message}`, { cause }),
  })

  async function write(name: string, record: Buffer | undefined): Promise<void> {
    const offset = await topic.append(name, record)
    await topic.hasRead(offset + 1)
  }

  return {
    get,
    check,
    messagesOf,
    channels,
    /** Resolves when everything is in memory that is durable now. @throws LogUnavailableError */
    ready: (): Promise<void> => topic.hasReadAll(),
    /**
     * Keeps a message in place of the one before, unless that is later in the same log. Resolves when it is durable.
     *
     * @throws LogUnavailableError
     */
    async keep(message: RetainedMessage): Promise<void> {
      await topic.hasRead(0)
      const name = recordName(message)
      if (later(message) !== undefined) return
      await write(name, recordOf(message))
      // Another was faster with a later one, and compaction keeps the last record.
      const faster = later(message)
      if (faster !== undefined) await write(name, recordOf(faster))
    },
    /** Nothing is kept of the topic. Resolves when that is durable. @throws LogUnavailableError */
    async clear(cleared: RetainedTopic): Promise<void> {
      await topic.hasRead(0)
      if (get(cleared) !== undefined) await write(recordName(cleared), undefined)
    },
    /** Waits for what is being saved; later calls reject. A second call does nothing. */
    close: (): Promise<void> => topic.close(),
  }
}
