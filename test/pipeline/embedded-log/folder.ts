// A temporary folder for a test, and an embedded log in it.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { pino } from 'pino'
import { openChunkReader } from '../../../pipeline/embedded-log/chunk.ts'
import { type EmbeddedLog, type EmbeddedLogOptions, openEmbeddedLog } from '../../../pipeline/embedded-log/log.ts'
import { envelopeHeaderNames } from '../../../pipeline/envelope-headers.ts'
import type { OutgoingMessage } from '../../../pipeline/log.ts'

export const silent = pino({ level: 'silent' })

/** @returns change: runs SQL on the file of the log in it */
export function makeFolder(): { path: string; change: (sql: string) => void; remove: () => void } {
  const path = mkdtempSync(join(tmpdir(), 'sluice-log-'))
  const change = (sql: string): void => {
    const database = new DatabaseSync(join(path, 'messages.sqlite'))
    database.exec(sql)
    database.close()
  }
  return { path, change, remove: () => rmSync(path, { recursive: true, force: true }) }
}

export function openLogIn(folder: string, options: Partial<EmbeddedLogOptions> = {}): EmbeddedLog {
  return openEmbeddedLog({
    path: join(folder, 'messages.sqlite'),
    name: 'messages',
    queueBytesMax: 16 * 1024 * 1024,
    retentionMs: 24 * 3_600_000,
    logger: silent,
    ...options,
  })
}

/** Every message in the log. */
export function readAll(log: EmbeddedLog): { offset: number; message: OutgoingMessage }[] {
  const reader = openChunkReader(log.file, { bytesMax: Infinity, messagesMax: 10_000_000 })
  const cursor = reader.read(log.file.start, log.file.start)?.cursor()
  const found: { offset: number; message: OutgoingMessage }[] = []
  while (cursor?.next() === true) {
    const { offset, fault: _, ...message } = cursor.message
    found.push({ offset, message: { ...message, headers: cursor.headers().filter(({ key }) => !envelopeHeaderNames.has(key)) } })
  }
  return found
}
