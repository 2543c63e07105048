// Which number a log has in a store, whatever the store keeps its logs in.

import { expect, test } from 'vitest'
import { checkUnread, chooseLog, type LogIdentity, type RegisteredLog } from '../../sinks/log-registry.ts'

const log = (number: number, name: string, id: string, writer = 'writer-1'): RegisteredLog => ({ number, name, id, writer })
const identity = (some: Partial<LogIdentity> = {}): LogIdentity => ({
  logName: 'messages',
  logId: 'id-1',
  writer: 'writer-1',
  acceptNewLog: false,
  ...some,
})

test('the first log is number 1, and the next one the number behind the highest', () => {
  expect(chooseLog([], identity())).toEqual({ number: 1, state: 'new' })
  expect(chooseLog([log(1, 'other', 'a'), log(5, 'another', 'b')], identity())).toEqual({ number: 6, state: 'new' })
})

test('a log that is known keeps its number', () => {
  expect(chooseLog([log(2, 'other', 'id-1'), log(3, 'messages', 'id-1')], identity())).toEqual({ number: 3, state: 'known' })
})

test('the log of another writer is refused by the names of both', () => {
  expect(() => chooseLog([log(1, 'messages', 'id-1', 'theirs')], identity({ acceptNewLog: true }))).toThrow(/"theirs".*"writer-1"/)
})

test('a log of another id is refused until it is accepted, and is a new one then', () => {
  const logs = [log(4, 'messages', 'id-0')]
  expect(() => chooseLog(logs, identity())).toThrow(/id-1.*id-0.*--accept-new-log/)
  expect(chooseLog(logs, identity({ acceptNewLog: true }))).toEqual({ number: 5, state: 'new' })
})

test('a log that was written from before the last one has its number again', () => {
  const logs = [log(2, 'messages', 'id-2'), log(1, 'messages', 'id-1')]
  expect(chooseLog(logs, identity({ acceptNewLog: true }))).toEqual({ number: 1, state: 'again' })
})

test('the number after the last is refused', () => {
  const logs = Array.from({ length: 127 }, (_, at) => log(at + 1, `log-${at}`, 'id'))
  expect(() => chooseLog(logs, identity())).toThrow(/127 logs/)
})

test('a store that is new to a writer which has read before is refused, unless that is accepted or nobody can tell', async () => {
  const hasCommits = () => Promise.resolve(true)
  const none = async () => []
  await expect(checkUnread(identity({ hasCommits }), none)).rejects.toThrow(/"messages".*"writer-1".*log\.group.*--accept-new-log/)
  await checkUnread(identity({ hasCommits, acceptNewLog: true }), none)
  await checkUnread(identity({ hasCommits: () => Promise.resolve(false) }), none)
  await checkUnread(identity(), none)
})

test('a store that another worker has made known meanwhile is not new', async () => {
  const hasCommits = () => Promise.resolve(true)
  await checkUnread(identity({ hasCommits }), async () => [log(1, 'messages', 'id-1')])
})
