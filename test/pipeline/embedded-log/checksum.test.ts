// A message that was changed in the log is detected when it is read, and never decoded; messages older than checksums can be read.

import { afterEach, beforeEach, expect, test } from 'vitest'
import { type EmbeddedLog } from '../../../pipeline/embedded-log/log.ts'
import { openEmbeddedSource } from '../../../pipeline/embedded-log/source.ts'
import { openEmbeddedTopicReader } from '../../../pipeline/embedded-log/topic-reader.ts'
import { SystemicError } from '../../../pipeline/systemic-error.ts'
import { outgoing } from '../message.ts'
import { makeFolder, openLogIn, readAll } from './folder.ts'

let folder: ReturnType<typeof makeFolder>
beforeEach(() => {
  folder = makeFolder()
})
afterEach(() => folder.remove())

/** The offsets that a writer's source returns, up to the end of the log or a fault. */
async function read(log: EmbeddedLog, damaged: 'error' | 'dead-letter' = 'error') {
  const source = openEmbeddedSource({
    log,
    damaged,
    consumer: 'w',
    startAt: async () => new Map(),
    chunkBytesMax: 1e6,
    chunkMessagesMax: 10,
  })
  const offsets: number[] = []
  const rules: (string | undefined)[] = []
  try {
    for await (const chunk of source.chunks(new AbortController().signal)) {
      const cursor = chunk.cursor()
      while (cursor.next()) {
        offsets.push(cursor.message.offset)
        rules.push(cursor.message.fault?.rule)
        // The dead letter needs all of it.
        cursor.headers()
      }
      if (chunk.to === log.file.end) return { offsets, rules, fault: undefined }
    }
  } catch (fault) {
    return { offsets, rules, fault }
  } finally {
    await source.close()
  }
  throw new Error('the source ended')
}

const message = outgoing({ headers: [{ key: 'a', value: 'b' }] })

test.each([
  "channel = 'other'",
  "subtopic = 'other'",
  "publisher = 'other'",
  "protocol = 'other'",
  "content_type = 'application/json'",
  'created_us = created_us + 1',
  'created_rest_ns = created_rest_ns + 1',
  'headers = NULL',
  "headers = '{'",
  "payload = x'00'",
  '"offset" = 3',
])('a message whose %s was changed stops its reader after the messages before it, or is a dead letter', async changed => {
  const log = openLogIn(folder.path)
  await log.append([message, message, message])
  await log.close()
  folder.change(`UPDATE messages SET ${changed} WHERE "offset" = 2`)
  const again = openLogIn(folder.path)
  const { offsets, fault } = await read(again)
  expect(offsets).toEqual([0, 1])
  expect(fault).toBeInstanceOf(SystemicError)
  expect((fault as Error).message).toMatch(
    /messages\.sqlite.*offset [23] has changed since it was appended.*restore the file from a backup/,
  )

  const reader = openEmbeddedTopicReader(again)
  const readOffsets = async (): Promise<void> => {
    for await (const chunk of reader.read(0, 0, again.file.end)) expect(chunk.to).toBeLessThanOrEqual(3)
  }
  await expect(readOffsets()).rejects.toThrow(/has changed since it was appended/)

  expect((await read(again, 'dead-letter')).rules).toEqual([undefined, undefined, 'checksum'])
  await again.close()
})

test('the statement in the error discards the message', async () => {
  const log = openLogIn(folder.path)
  await log.append([message, message])
  await log.close()
  folder.change('UPDATE messages SET payload = x\'00\' WHERE "offset" = 0')
  const damaged = openLogIn(folder.path)
  const [, statement] = /: (UPDATE [^;]*);/.exec(((await read(damaged)).fault as Error).message)!
  await damaged.close()
  folder.change(statement!)
  const mended = openLogIn(folder.path)
  expect(await read(mended)).toMatchObject({ offsets: [0, 1], fault: undefined })
  expect(readAll(mended)[0]!.message.payload).toHaveLength(0)
  await mended.close()
})

test('texts that SQLite cannot store unchanged do not look like damage', async () => {
  const log = openLogIn(folder.path)
  await log.append([outgoing({ subtopic: 'a\0b', publisher: '\ud800', contentType: 'ü€😀' })])
  expect((await read(log)).fault).toBeUndefined()
  await log.close()
})
