// The retained messages in a file, and the bound of all in memory.

import { randomUUID } from 'node:crypto'
import { DatabaseSync } from 'node:sqlite'
import { expect, test } from 'vitest'
import { LogUnavailableError } from '../../../../pipeline/log.ts'
import type { RetainedMessage } from '../../../../pipeline/mqtt/retained/records.ts'
import { openRetainedRecords } from '../../../../pipeline/mqtt/retained/records.ts'
import type { RetainedStore } from '../../../../pipeline/mqtt/retained/store.ts'
import { retainedConformance, retainedMessage } from '../../../conformance/retained.ts'
import { temporaryFolder } from '../../../temporary-folder.ts'
import { openRetainedFile } from '../site.ts'

retainedConformance('a file of retained messages', () => {
  const path = `${temporaryFolder()}/retained.sqlite`
  let store: RetainedStore | undefined
  return {
    open() {
      if (store !== undefined) return store
      const opened = openRetainedFile(2, path)
      store = {
        ...opened,
        close() {
          store = undefined
          return opened.close()
        },
      }
      return store
    },
  }
})

test('what the file refuses is unavailable, what comes after it is saved, and what is no record is skipped', async () => {
  const path = `${temporaryFolder()}/retained.sqlite`
  await openRetainedFile(2, path).close()
  const file = new DatabaseSync(path)
  file.exec(`CREATE TRIGGER full BEFORE INSERT ON records WHEN NEW.key LIKE '% refused' BEGIN SELECT RAISE(FAIL, 'disk full'); END`)
  const otherQos = '{"publisher":"thing","contentType":"","qos":-1,"log":"log","partition":0,"offset":0}\n'
  for (const [at, record] of ['', 'x', '{\n', 'null\n', '{"offset":"1"}\n', otherQos].entries())
    file.prepare('INSERT INTO records (key, log_offset, payload) VALUES (?, ?, ?)').run(`channel ${at}`, at, Buffer.from(record))
  file.close()
  const store = openRetainedFile(2, path)
  expect([...store.messagesOf('channel')]).toEqual([])
  const keeping = store.keep(retainedMessage(1, { subtopic: 'refused' }))
  await expect(keeping).rejects.toBeInstanceOf(LogUnavailableError)
  await expect(keeping).rejects.toThrow(/disk full/)
  const kept = retainedMessage(1)
  await store.keep(kept)
  await store.close()
  const again = openRetainedFile(2, path)
  expect(again.get(kept)).toEqual(kept)
  await again.close()
})

test('the messages of a channel have 4 MiB at most, and those of others do not count', () => {
  const records = openRetainedRecords(1_000)
  const payload = new Uint8Array(60 * 1024)
  const channel = randomUUID()
  for (let at = 0; at < 68; at++) records.set(retainedMessage(1, { channel, subtopic: `t${at}`, payload }))
  const sentence = /^the retained messages of a channel have at most 4194304 bytes: clear one with an empty message/
  expect(() => records.check({ channel, subtopic: 'one more' }, payload.length)).toThrow(sentence)
  records.check({ channel, subtopic: 't0' }, payload.length)
  records.check({ channel: randomUUID(), subtopic: '' }, payload.length)
})

test('those of a user who registered themselves have 8 MiB at most, those of all such users 32 MiB, and those of others do not count', () => {
  const records = openRetainedRecords(1_000)
  const payload = new Uint8Array(64 * 1024)
  const own = (boundedOwner?: string): RetainedMessage => retainedMessage(1, { boundedOwner, payload })
  const check = (message: RetainedMessage): void => records.check(message, payload.length)
  const others = own('e')
  records.set(others)
  for (const owner of ['a', 'b', 'c']) {
    for (let at = 0; at < 126; at++) records.set(own(owner))
    const last = own(owner)
    check(last)
    records.set(last)
    for (const more of [own(owner), { ...others, boundedOwner: owner }])
      expect(() => check(more)).toThrow(/^the retained messages of a user who registered themselves have at most 8388608 bytes: clear one/)
    check(last)
    check(own('e'))
  }
  for (let at = 0; at < 126; at++) records.set(own('d'))
  expect(() => check(own('e'))).toThrow(
    /^the retained messages of all users who registered themselves have at most 33554432 bytes: clear one/,
  )
  check(own())
  records.set({ ...others, boundedOwner: undefined })
  check(own('e'))
})

test('all messages together have 64 MiB at most', () => {
  const records = openRetainedRecords(1_000)
  const payload = new Uint8Array(64 * 1024)
  const one = retainedMessage(1, { payload })
  records.set(one)
  for (let at = 1; at < 1_000; at++) records.set(retainedMessage(1, { payload }))
  const sentence = /^all retained messages have at most 67108864 bytes: clear one/
  records.check(retainedMessage(1), payload.length)
  for (let at = 0; at < 16; at++) records.set(retainedMessage(1, { payload }))
  expect(() => records.check(retainedMessage(1), payload.length)).toThrow(sentence)
  records.check(one, payload.length)
  records.remove(one)
  records.check(one, payload.length)
  records.removeAll()
  records.check(one, payload.length)
})
