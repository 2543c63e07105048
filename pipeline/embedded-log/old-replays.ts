// Upgrade of a data folder whose earlier release replayed through a separate log: see ../dead-letters/reopen.ts.

import { existsSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { oldReplaysGroup, oldReplaysTopic } from '../dead-letters/old-replays.ts'
import { reopenDeadLetters } from '../dead-letters/reopen.ts'
import { partition } from './file.ts'
import type { EmbeddedLog } from './log.ts'
import { openEmbeddedTopicReader } from './topic-reader.ts'

/**
 * Reopens the letters whose messages wait in the old replays log, and deletes that log. After a crash in between they are reopened again.
 *
 * @param folder of the logs
 * @param open opens the log of that name in the folder
 * @returns how many letters were reopened
 */
export async function reopenEmbeddedReplays(
  folder: string,
  deadLetters: EmbeddedLog,
  open: (name: string) => EmbeddedLog,
  { topic, writer }: { readonly topic: string; readonly writer: string },
): Promise<number> {
  const name = oldReplaysTopic(topic, writer)
  if (!existsSync(`${folder}/${name}.sqlite`)) return 0
  const replays = open(name)
  let reopened: number
  try {
    const row = replays.file.database.prepare('SELECT committed FROM consumers WHERE name = ?').get(oldReplaysGroup(writer))
    reopened = await reopenDeadLetters({
      deadLetters: openEmbeddedTopicReader(deadLetters),
      log: deadLetters,
      replays: openEmbeddedTopicReader(replays),
      committed: new Map(row === undefined ? [] : [[partition, Number(row['committed'])]]),
    })
  } finally {
    await replays.close()
  }
  for (const end of ['', '-wal', '-shm']) await rm(`${folder}/${name}.sqlite${end}`, { force: true })
  return reopened
}
