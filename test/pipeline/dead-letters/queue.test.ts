// Lists, shows and drops dead letters, on the fake log and on the embedded one.

import { afterEach, describe, expect, test } from 'vitest'
import { type DeadLetterQueue, openDeadLetterQueue } from '../../../pipeline/dead-letters/queue.ts'
import { openDeadLetterIndex } from '../../../pipeline/dead-letters/state-index.ts'
import { openEmbeddedLog } from '../../../pipeline/embedded-log/log.ts'
import { openEmbeddedTopicReader } from '../../../pipeline/embedded-log/topic-reader.ts'
import { type Header, type Log, MessageRefusedError, type OutgoingMessage } from '../../../pipeline/log.ts'
import { SystemicError } from '../../../pipeline/systemic-error.ts'
import type { TopicReader } from '../../../pipeline/topic-reader.ts'
import { type DeadLetter, openDeadLetters } from '../../../pipeline/writer/dead-letters.ts'
import { logPartition } from '../../../transformers/log-partition.ts'
import { makeFolder, silent } from '../embedded-log/folder.ts'
import { openFakeLog } from '../fake-log.ts'
import { openFakeTopicReader } from '../fake-topic-reader.ts'
import { outgoing } from '../message.ts'

interface Topics {
  readonly deadLetters: Log
  reader(): TopicReader
  close(): Promise<void>
}

const kinds: Record<string, () => Topics> = {
  'the fake log': () => {
    const deadLetters = openFakeLog('messages.dead-letters.relational')
    return {
      deadLetters,
      reader: () => openFakeTopicReader(deadLetters),
      close: async () => undefined,
    }
  },
  'the embedded log': () => {
    const folder = makeFolder()
    const name = 'messages.dead-letters.relational'
    const path = `${folder.path}/${name}`
    const deadLetters = openEmbeddedLog({ path, name, queueBytesMax: 1 << 24, retentionMs: 1e9, logger: silent })
    return {
      deadLetters,
      reader: () => openEmbeddedTopicReader(deadLetters),
      async close() {
        await deadLetters.close()
        folder.remove()
      },
    }
  },
}

function deadLetter(offset: number, rule = 'one-value', message: Partial<OutgoingMessage> = {}): DeadLetter {
  const rejection = { message: 0, rule, reason: 'both v and vs', record: 2, hint: 'send one record per value' }
  return { stage: 'decode', at: logPartition(0, 3), offset, rejection, message: outgoing(message) }
}

describe.each(Object.entries(kinds))('on %s', (_name, open) => {
  let topics: Topics | undefined

  afterEach(async () => {
    await topics?.close()
    topics = undefined
  })

  /** Letters of a writer, and a queue that reads them as after a restart. */
  async function withDeadLetters(
    deadLetters: readonly DeadLetter[],
    secondLogs: readonly DeadLetter[] = [],
  ): Promise<{ tool: () => DeadLetterQueue; put: (some: readonly DeadLetter[]) => Promise<void> }> {
    const these = (topics = open())
    const of = (logNumber: number) =>
      openDeadLetters({
        logOf: async () => these.deadLetters,
        topics: ['messages'],
        logIds: ['id-1'],
        logNumbers: [logNumber],
        writer: 'relational',
      })
    const dead = of(1)
    await dead.put(deadLetters)
    await of(2).put(secondLogs)
    return {
      tool: () => openDeadLetterQueue({ reader: these.reader(), log: these.deadLetters }),
      put: some => dead.put(some),
    }
  }

  const ids = async (tool: DeadLetterQueue, selection = {}): Promise<string[]> =>
    (await tool.list(selection, 100)).letters.map(({ id }) => id)

  test('a letter says what is wrong with its message, where the message was, and what its device sent', async () => {
    const { tool } = await withDeadLetters([deadLetter(7)])
    expect(await tool().list({}, 10)).toEqual({
      total: 1,
      letters: [
        {
          id: '1-3-7',
          state: 'open',
          topic: 'messages',
          stage: 'VALUE_CONVERTER',
          rule: 'one-value',
          reason: 'both v and vs',
          record: 2,
          hint: 'send one record per value',
          channel: 'c1',
          subtopic: 'room.temperature',
          publisher: 't1',
          protocol: 'http',
          content_type: 'application/senml+json',
          created: '1700000000000000000',
          payload_bytes: 3,
        },
      ],
    })
    const [full] = await tool().show('3-7')
    expect(Buffer.from(full!.payload, 'base64').toString()).toBe('[1]')
    expect(Buffer.from(full!.key!, 'base64').toString()).toBe('c1')
    expect(full!.headers).toEqual([])
  })

  test('a letter duplicated by a crash counts once', async () => {
    const { tool } = await withDeadLetters([deadLetter(7), deadLetter(8), deadLetter(7)])
    expect(await ids(tool())).toEqual(['1-3-8', '1-3-7'])
  })

  test('letters are selected by rule and channel, and the newest are listed', async () => {
    const uuid = '7acb5f9e-3c0e-4a57-9d0a-5f9f0a3c1b77'
    const { tool } = await withDeadLetters([
      deadLetter(1),
      deadLetter(2, 'time-range'),
      deadLetter(3, 'one-value', { channel: 'c2' }),
      deadLetter(4, 'one-value', { channel: uuid }),
    ])
    expect(await ids(tool(), { rule: 'one-value' })).toEqual(['1-3-1', '1-3-3', '1-3-4'])
    expect(await ids(tool(), { channel: 'c2' })).toEqual(['1-3-3'])
    for (const channel of [uuid, uuid.toUpperCase()]) expect(await ids(tool(), { channel })).toEqual(['1-3-4'])
    expect(await ids(tool(), { rule: 'one-value', channel: 'c2' })).toEqual(['1-3-3'])
    const page = await tool().list({}, 2)
    expect([page.letters.map(({ id }) => id), page.total]).toEqual([['1-3-3', '1-3-4'], 4])
    expect(await tool().list({}, 0)).toEqual({ letters: [], total: 4 })
  })

  test("an id may contain the log's number or topic, or neither; with another log it matches no letter", async () => {
    const { tool } = await withDeadLetters([deadLetter(1)], [deadLetter(1, 'time-range')])
    expect(await ids(tool(), { ids: ['1-3-1'] })).toEqual(['1-3-1'])
    expect(await ids(tool(), { ids: ['2-3-1'] })).toEqual(['2-3-1'])
    expect(await ids(tool(), { ids: ['messages-3-1'] })).toEqual(['1-3-1', '2-3-1'])
    expect(await ids(tool(), { ids: ['3-1'] })).toEqual(['1-3-1', '2-3-1'])
    expect(await ids(tool(), { ids: ['5-3-1', 'others-3-1', '4-1'] })).toEqual([])
    await expect(tool().show('nonsense')).rejects.toThrow(RangeError)
  })

  test('a dropped letter is no longer open, also after a restart, and is kept', async () => {
    const { tool } = await withDeadLetters([deadLetter(1), deadLetter(2), deadLetter(3, 'time-range')])
    expect(await tool().drop({ rule: 'one-value' })).toEqual({ dropped: 2, missing: [], partial: [] })
    expect(await ids(tool())).toEqual(['1-3-3'])
    const { letters: deadLetters } = await tool().list({ all: true }, 10)
    expect(deadLetters.map(({ id, state }) => [id, state])).toEqual([
      ['1-3-1', 'dropped'],
      ['1-3-2', 'dropped'],
      ['1-3-3', 'open'],
    ])
    expect(await tool().drop({})).toEqual({ dropped: 1, missing: [], partial: [] })
    expect(await tool().drop({})).toEqual({ dropped: 0, missing: [], partial: [] })
    expect((await tool().show('3-1'))[0]!.state).toBe('dropped')
  })

  test('a message stays partial once one of its letters says so, and a drop names it', async () => {
    const first = deadLetter(1, 'store-refused')
    // After a crash it is refused for another reason, before it reaches the store.
    const { tool } = await withDeadLetters([{ ...first, rejection: { ...first.rejection, partial: true } }, deadLetter(1), deadLetter(2)])
    expect((await tool().list({}, 10)).letters.map(({ id, rule, partial }) => [id, rule, partial])).toEqual([
      ['1-3-1', 'one-value', true],
      ['1-3-2', 'one-value', undefined],
    ])
    expect(await tool().drop({})).toEqual({ dropped: 2, missing: [], partial: ['1-3-1'] })
  })

  test('ids without a letter are named, and the others are dropped', async () => {
    const { tool } = await withDeadLetters([deadLetter(1)])
    expect(await tool().drop({ ids: ['3-1', '3-2', '9-3-1'] })).toEqual({
      dropped: 1,
      missing: ['3-2', '9-3-1'],
      partial: [],
    })
  })

  test('a letter written while an older one is being resolved stays open', async () => {
    const { tool, put } = await withDeadLetters([deadLetter(1), deadLetter(2)])
    const append = topics!.deadLetters.append.bind(topics!.deadLetters)
    topics!.deadLetters.append = async words => {
      topics!.deadLetters.append = append
      await put([deadLetter(1, 'time-range')])
      return append(words)
    }
    expect(await tool().drop({})).toMatchObject({ dropped: 2 })
    const { letters: deadLetters } = await tool().list({}, 10)
    expect(deadLetters.map(({ id, rule, state }) => [id, rule, state])).toEqual([['1-3-1', 'time-range', 'open']])
  })

  test('an id that matches letters of several logs drops none, and the error lists them', async () => {
    const { tool } = await withDeadLetters([deadLetter(1)], [deadLetter(1, 'time-range'), deadLetter(2, 'time-range')])
    for (const id of ['3-1', 'messages-3-1']) {
      await expect(tool().drop({ ids: ['3-2', id] })).rejects.toThrow(
        `the id ${id} matches dead letters of several logs: use 1-3-1 or 2-3-1`,
      )
      await expect(tool().drop({ ids: [id] })).rejects.toThrow(SystemicError)
    }
    expect(await ids(tool())).toEqual(['1-3-1', '2-3-1', '2-3-2'])
    expect(await tool().drop({ ids: ['2-3-1', 'messages-3-2', 'others-3-1'] })).toMatchObject({ dropped: 2, missing: ['others-3-1'] })
    expect(await ids(tool())).toEqual(['1-3-1'])
  })

  test('all letters can be read one after another', async () => {
    const { tool } = await withDeadLetters(
      Array.from({ length: 1100 }, (_, offset) => deadLetter(offset, offset % 2 === 0 ? 'one-value' : 'other')),
    )
    const found: string[] = []
    for await (const { id } of tool().each({ rule: 'other' })) found.push(id)
    expect([found.length, found[0], found.at(-1)]).toEqual([550, '1-3-1', '1-3-1099'])
  })

  test('headers of a sender with our names change nothing', async () => {
    const forged: Header[] = [
      { key: '__connect.errors.topic', value: 'others' },
      { key: 'sluice.log', value: '9' },
      { key: 'sluice.partition', value: '9' },
      { key: 'sluice.offset', value: '9' },
      { key: 'sluice.rule', value: 'forged' },
      { key: 'sluice.hint', value: 'forged' },
      { key: 'sluice.settled', value: 'dropped' },
    ]
    const { tool } = await withDeadLetters([deadLetter(1, 'one-value', { headers: forged })])
    const [full] = await tool().show('1-3-1')
    expect(full).toMatchObject({ id: '1-3-1', state: 'open', rule: 'one-value', topic: 'messages', hint: 'send one record per value' })
    expect(full!.headers.map(({ name, value }) => ({ key: name, value }))).toEqual(forged)
  })

  test.each([true, false])('the open ones are counted by rule as they come and go (resolved ones kept: %s)', async keepsResolved => {
    const { tool, put } = await withDeadLetters([deadLetter(1), deadLetter(2, 'time-range')], [deadLetter(1)])
    const letters = openDeadLetterIndex(topics!.reader(), 'id-1', { keepsResolved })
    const counted = async (): Promise<object> => {
      await letters.readOn()
      return letters.openByRule()
    }
    expect(letters.openByRule()).toEqual({})
    expect(await counted()).toEqual({ 'one-value': 2, 'time-range': 1 })
    // The same message again, for another rule: after a crash.
    await put([deadLetter(2, 'store-refused'), deadLetter(3)])
    expect(await counted()).toEqual({ 'one-value': 3, 'store-refused': 1 })
    await tool().drop({ rule: 'one-value' })
    expect(await counted()).toEqual({ 'store-refused': 1 })
    expect(letters.of(1, 3).get(1)?.state).toBe(keepsResolved ? 'dropped' : undefined)
    await put([deadLetter(3)])
    expect(await counted()).toEqual({ 'one-value': 1, 'store-refused': 1 })
    expect(await counted()).toEqual({ 'one-value': 1, 'store-refused': 1 })
    const otherTopic = openDeadLetterIndex(topics!.reader(), 'id-2')
    await otherTopic.readOn()
    expect(otherTopic.openByRule()).toEqual({})
  })

  test('messages in the topic that no writer wrote are skipped', async () => {
    const { tool } = await withDeadLetters([deadLetter(1)])
    await topics!.deadLetters.append([
      outgoing(),
      outgoing({ headers: [{ key: '__connect.errors.topic', value: 'x' }] }),
      outgoing({ headers: [{ key: 'sluice.settled', value: 'dropped' }] }),
      outgoing({
        headers: [
          { key: 'sluice.log', value: '1' },
          { key: 'sluice.partition', value: '3' },
          { key: 'sluice.offset', value: '1' },
          { key: 'sluice.settled', value: 'lost' },
        ],
      }),
    ])
    expect(await ids(tool(), { all: true })).toEqual(['1-3-1'])
  })

  test("a letter without its message's content says so, and can be dropped", async () => {
    const { tool, put } = await withDeadLetters([deadLetter(7)])
    const append = topics!.deadLetters.append.bind(topics!.deadLetters)
    topics!.deadLetters.append = async messages => {
      if (messages.some(({ payload }) => payload.byteLength > 1000)) throw new MessageRefusedError('too large')
      return append(messages)
    }
    await put([deadLetter(8, 'payload-size', { payload: new Uint8Array(5000), headers: [{ key: 'trace', value: 'x' }] })])
    const [shown] = await tool().show('1-3-8')
    expect(shown).toMatchObject({ rule: 'payload-size', channel: 'c1', payload_bytes: 0, shortened_bytes: 5282, headers: [] })
    expect(await tool().drop({})).toEqual({ dropped: 2, missing: [], partial: [] })
  })

  test('thousands of letters are dropped in bounded groups', async () => {
    const { tool } = await withDeadLetters(
      Array.from({ length: 4000 }, (_, offset) => deadLetter(offset, 'one-value', { payload: new Uint8Array(2000) })),
    )
    expect(await tool().drop({})).toEqual({ dropped: 4000, missing: [], partial: [] })
    expect((await tool().list({}, 10)).total).toBe(0)
  })
})
