// Which number a log has in a store, whatever the store keeps its logs in, and which writers may share one.

import { describe, expect, test } from 'vitest'
import {
  checkUnread,
  chooseLog,
  freeLog,
  type LogIdentity,
  type LogTable,
  openLogRegistry,
  openLogs,
  type RegisteredLog,
} from '../../sinks/logs.ts'

const [json, senml, cbor] = ['application/json', 'application/senml+json', 'application/senml+cbor']

const log = (number: number, name: string, id: string, some: Partial<RegisteredLog> = {}): RegisteredLog => ({
  number,
  name,
  id,
  writer: 'writer-1',
  acceptedMs: number,
  ...some,
})
const identity = (some: Partial<LogIdentity> = {}): LogIdentity => ({ logName: 'messages', logId: 'id-1', writer: 'writer-1', ...some })

test('the first log is number 1, and each next one follows the highest', () => {
  expect(chooseLog([], identity())).toEqual({ number: 1, state: 'new' })
  expect(chooseLog([log(1, 'other', 'a'), log(5, 'another', 'b')], identity())).toEqual({ number: 6, state: 'new' })
})

test('a known log keeps its number', () => {
  expect(chooseLog([log(2, 'other', 'id-1'), log(3, 'messages', 'id-1')], identity())).toEqual({ number: 3, state: 'known' })
})

test('the log of another writer is refused, and the error names both and each way out', () => {
  expect(() => chooseLog([log(1, 'messages', 'id-1', { writer: 'theirs' })], identity({ acceptNewLog: 'id-1' }))).toThrow(
    /"theirs" \(all content types\).*"writer-1" \(all content types\).*log\.group.*another store.*transformer\.content_types/,
  )
})

describe('writers with content types', () => {
  const theirs = (contentTypes?: string[]) => [log(1, 'messages', 'id-1', { writer: 'theirs', contentTypes })]

  test.each([
    [undefined, undefined],
    [undefined, [json]],
    [[json], undefined],
    [
      [json, senml],
      [cbor, senml],
    ],
  ])('a writer of %s keeps one of %s away', (present, added) => {
    expect(() => chooseLog(theirs(present as string[]), identity({ contentTypes: added as string[] }))).toThrow(/"theirs"/)
  })

  test.each([
    [[json], [senml, cbor]],
    [['other', json], [senml]],
  ])('a writer of %s shares a log with one of %s', (present, added) => {
    expect(chooseLog(theirs(present), identity({ contentTypes: added }))).toEqual({ number: 2, state: 'new' })
  })

  test('what another writer took of an earlier log of the name does not count', () => {
    const logs = [log(1, 'messages', 'id-0', { writer: 'theirs' }), log(2, 'messages', 'id-1', { writer: 'theirs', contentTypes: [json] })]
    expect(chooseLog(logs, identity({ contentTypes: [senml] }))).toEqual({ number: 3, state: 'new' })
  })

  test('a known log with other types is changed, and the order of types means nothing', () => {
    const logs = [log(1, 'messages', 'id-1', { contentTypes: [json, senml] })]
    expect(chooseLog(logs, identity({ contentTypes: [senml, json] }))).toEqual({ number: 1, state: 'known' })
    expect(chooseLog(logs, identity({ contentTypes: [json] }))).toEqual({ number: 1, state: 'changed' })
    expect(chooseLog(logs, identity())).toEqual({ number: 1, state: 'changed' })
  })
})

test('a log with another id is refused until that id is accepted, and is then a new one', () => {
  const logs = [log(4, 'messages', 'id-0')]
  expect(() => chooseLog(logs, identity())).toThrow(/id-1.*id-0.*--accept-new-log id-1$/)
  expect(() => chooseLog(logs, identity({ acceptNewLog: 'id-0' }))).toThrow(/--accept-new-log id-1$/)
  expect(chooseLog(logs, identity({ acceptNewLog: 'id-1' }))).toEqual({ number: 5, state: 'new' })
})

test('a log that was written earlier gets its number again', () => {
  const logs = [log(1, 'messages', 'id-1'), log(2, 'messages', 'id-2')]
  expect(chooseLog(logs, identity({ acceptNewLog: 'id-1' }))).toEqual({ number: 1, state: 'again' })
})

test('a freed number is used again when none is left above, and a log is refused when there is none at all', () => {
  const logs = Array.from({ length: 127 }, (_, at) => log(at + 1, `log-${at}`, 'id'))
  expect(() => chooseLog(logs, identity())).toThrow(/127 logs.*\.\/sluice logs <store>/)
  expect(chooseLog(logs.toSpliced(41, 1), identity())).toEqual({ number: 42, state: 'new' })
})

describe('a log with a given number', () => {
  const logs = [log(1, 'messages', 'id-1'), log(2, 'other', 'id-1')]

  test('gets that one, and keeps it', () => {
    expect(chooseLog(logs, identity({ logName: 'third', number: 7 }))).toEqual({ number: 7, state: 'new' })
    expect(chooseLog(logs, identity({ number: 1 }))).toEqual({ number: 1, state: 'known' })
  })

  test('is refused the number of another log, also of an earlier one of its name, and the error says which is free', () => {
    expect(() => chooseLog(logs, identity({ logName: 'third', number: 2 }))).toThrow(
      /the log "other" \(id id-1, writer "writer-1"\) as number 2, so "third" \(id id-1\) cannot be number 2: set 3 in log\.numbers/,
    )
    const recreated = identity({ logId: 'id-2', acceptNewLog: 'id-2', number: 1 })
    expect(() => chooseLog(logs, recreated)).toThrow(/"messages" \(id id-1, .* \(id id-2\) cannot be number 1: set 3 in/)
  })

  test('is refused another number than before', () => {
    expect(() => chooseLog(logs, identity({ number: 3 }))).toThrow(/"messages" \(id id-1, .* as number 1, .* cannot be number 3: set 1 in/)
  })

  test('is first refused for its writer, and for an id that was not accepted', () => {
    expect(() => chooseLog(logs, identity({ writer: 'theirs', number: 2 }))).toThrow(/belong to the writer "writer-1"/)
    expect(() => chooseLog(logs, identity({ logId: 'id-2', number: 2 }))).toThrow(/--accept-new-log id-2$/)
  })
})

test('a new store for a writer that has read before is refused, unless it is accepted or unknown', async () => {
  const hasCommits = () => Promise.resolve(true)
  const none = async () => []
  await expect(checkUnread(identity({ hasCommits }), none)).rejects.toThrow(/"messages".*"writer-1".*log\.group.*--accept-new-log id-1/)
  await checkUnread(identity({ hasCommits, acceptNewLog: 'id-1' }), none)
  await checkUnread(identity({ hasCommits: () => Promise.resolve(false) }), none)
  await checkUnread(identity(), none)
})

test('a store that another worker has registered meanwhile is not new', async () => {
  const hasCommits = () => Promise.resolve(true)
  await checkUnread(identity({ hasCommits }), async () => [log(1, 'messages', 'id-1')])
})

/** A table of logs in memory, and how many changes it has seen. */
function tableOf(logs: RegisteredLog[], onRead: () => void = () => undefined): LogTable & { changes: number } {
  const put = (log: RegisteredLog): boolean => {
    const at = logs.findIndex(({ number }) => number === log.number)
    logs.splice(at < 0 ? logs.length : at, at < 0 ? 0 : 1, log)
    table.changes++
    return true
  }
  const table = {
    changes: 0,
    async read() {
      const read = [...logs]
      onRead()
      return read
    },
    add: async (log: RegisteredLog) => !logs.some(({ number }) => number === log.number) && put(log),
    update: async (log: RegisteredLog) => put(log),
    async remove({ number }: RegisteredLog) {
      logs.splice(
        logs.findIndex(log => log.number === number),
        1,
      )
    },
  }
  return table
}

test('a start changes nothing; the first batch takes the number, once', async () => {
  const table = tableOf([])
  const opened = await openLogs([identity(), identity({ logName: 'other' })], openLogRegistry(table))
  expect([opened.logNumbers, table.changes]).toEqual([[undefined, undefined], 0])
  await opened.takeNumbers([1])
  expect(opened.logNumbers).toEqual([undefined, 1])
  await opened.takeNumbers([0, 1])
  expect([opened.logNumbers, table.changes]).toEqual([[2, 1], 2])
})

test('a log that an operator accepts has its number at the start, so that starting once is enough', async () => {
  const table = tableOf([log(1, 'messages', 'id-0')])
  expect(await openLogRegistry(table).find(identity({ acceptNewLog: 'id-1' }))).toBe(2)
  expect(await openLogRegistry(table).find(identity())).toBe(2)
})

test('a start with other content types changes the record at once', async () => {
  const logs = [log(1, 'messages', 'id-1'), log(2, 'messages', 'id-1', { writer: 'theirs', contentTypes: [senml] })]
  expect(await openLogRegistry(tableOf(logs)).find(identity({ contentTypes: [json] }))).toBe(1)
  expect(logs[0]).toEqual(log(1, 'messages', 'id-1', { contentTypes: [json] }))
})

test('of two writers that begin to take the same types at the same moment at least one is refused', async () => {
  const logs = [log(1, 'messages', 'id-1', { contentTypes: [json] })]
  let reads = 0
  const table = tableOf(logs, () => {
    // The other writer registers after this one has read.
    if (++reads === 1) logs.push(log(2, 'messages', 'id-1', { writer: 'theirs', contentTypes: [senml] }))
  })
  await expect(openLogRegistry(table).find(identity())).rejects.toThrow(/belong to the writer "theirs"/)
})

test('only the number of an earlier log, or of one whose topic is gone, is freed, and only without rows', async () => {
  const logs = [log(1, 'messages', 'id-0'), log(2, 'messages', 'id-1'), log(3, 'messages', 'id-1', { writer: 'theirs' })]
  const table = tableOf(logs)
  await expect(freeLog(table, 4, { hasRows: async () => false })).rejects.toThrow(/no log with the number 4/)
  await expect(freeLog(table, 2, { hasRows: async () => false })).rejects.toThrow(/from which the writer "writer-1" writes/)
  await expect(freeLog(table, 3, { hasRows: async () => false })).rejects.toThrow(/from which the writer "theirs" writes/)
  await expect(freeLog(table, 1, { hasRows: async () => true })).rejects.toThrow(/still has rows of the log "messages" \(id id-0\)/)
  await expect(freeLog(table, 3, { hasRows: async () => true }, true)).rejects.toThrow(/still has rows/)
  await freeLog(table, 3, { hasRows: async () => false }, true)
  await freeLog(table, 1, { hasRows: async number => number !== 1 })
  expect(logs.map(({ number }) => number)).toEqual([2])
})
