// Dead letters read back: listed, shown, replayed and dropped, on the fake log and on the embedded one.

import { afterEach, describe, expect, test } from 'vitest'
import { type DeadLetter, openDeadLetters } from '../../../pipeline/dead-letters.ts'
import { openEmbeddedLog } from '../../../pipeline/embedded-log/index.ts'
import { openEmbeddedTopicReader } from '../../../pipeline/embedded-log/topic-reader.ts'
import { type Letters, openLetters } from '../../../pipeline/letters/letters.ts'
import { type Header, type Log, MessageRefusedError, type OutgoingMessage } from '../../../pipeline/log.ts'
import { SystemicError } from '../../../pipeline/systemic-error.ts'
import type { TopicReader } from '../../../pipeline/topic-reader.ts'
import { makeFolder, silent } from '../embedded-log/folder.ts'
import { openFakeLog } from '../fake-log.ts'
import { openFakeTopicReader } from '../fake-topic-reader.ts'
import { outgoing } from '../message.ts'

interface Topics {
  readonly letters: Log
  readonly replays: Log
  reader(): TopicReader
  replaysReader(): TopicReader
  close(): Promise<void>
}

const kinds: Record<string, () => Topics> = {
  'the fake log': () => {
    const [letters, replays] = [openFakeLog('messages.dead-letters.relational'), openFakeLog('messages.replays.relational')]
    return {
      letters,
      replays,
      reader: () => openFakeTopicReader(letters),
      replaysReader: () => openFakeTopicReader(replays),
      close: async () => undefined,
    }
  },
  'the embedded log': () => {
    const folder = makeFolder()
    const open = (name: string) =>
      openEmbeddedLog({ path: `${folder.path}/${name}`, name, queueBytesMax: 1 << 24, retentionMs: 1e9, logger: silent })
    const [letters, replays] = [open('messages.dead-letters.relational'), open('messages.replays.relational')]
    return {
      letters,
      replays,
      reader: () => openEmbeddedTopicReader(letters),
      replaysReader: () => openEmbeddedTopicReader(replays),
      async close() {
        await letters.close()
        await replays.close()
        folder.remove()
      },
    }
  },
}

function letter(offset: number, rule = 'one-value', message: Partial<OutgoingMessage> = {}, log?: number): DeadLetter {
  const rejection = { message: 0, rule, reason: 'both v and vs', record: 2, hint: 'send a record for each value' }
  return { stage: 'decode', partition: 3, offset, rejection, message: outgoing(message), ...(log === undefined ? {} : { log }) }
}

describe.each(Object.entries(kinds))('on %s', (_name, open) => {
  let topics: Topics | undefined

  afterEach(async () => {
    await topics?.close()
    topics = undefined
  })

  /** A writer's letters, and the tool's view of them, as after a restart. */
  async function withLetters(
    letters: readonly DeadLetter[],
  ): Promise<{ tool: () => Letters; put: (some: readonly DeadLetter[]) => Promise<void> }> {
    const these = (topics = open())
    const dead = openDeadLetters({ log: these.letters, topic: 'messages', logNumber: 1, writer: 'relational' })
    await dead.put(letters)
    return {
      tool: () => openLetters({ reader: these.reader(), log: these.letters, replays: async () => these.replays }),
      put: some => dead.put(some),
    }
  }

  const ids = async (tool: Letters, selection = {}): Promise<string[]> => (await tool.list(selection, 100)).letters.map(({ id }) => id)

  test('a letter says what is wrong with its message, where it lay, and what its device said of it', async () => {
    const { tool } = await withLetters([letter(7)])
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
          hint: 'send a record for each value',
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

  test('one that a crash doubled is one', async () => {
    const { tool } = await withLetters([letter(7), letter(8), letter(7)])
    expect(await ids(tool())).toEqual(['1-3-8', '1-3-7'])
  })

  test('they are chosen by rule and channel, and the newest are listed', async () => {
    const { tool } = await withLetters([letter(1), letter(2, 'time-range'), letter(3, 'one-value', { channel: 'c2' }), letter(4)])
    expect(await ids(tool(), { rule: 'one-value' })).toEqual(['1-3-1', '1-3-3', '1-3-4'])
    expect(await ids(tool(), { channel: 'c2' })).toEqual(['1-3-3'])
    expect(await ids(tool(), { rule: 'one-value', channel: 'c2' })).toEqual(['1-3-3'])
    const page = await tool().list({}, 2)
    expect([page.letters.map(({ id }) => id), page.total]).toEqual([['1-3-3', '1-3-4'], 4])
    expect(await tool().list({}, 0)).toEqual({ letters: [], total: 4 })
  })

  test('an id may name the log by number or topic, or leave it out; one that names another log is of no letter', async () => {
    const { tool } = await withLetters([letter(1), letter(1, 'time-range', {}, 2)])
    expect(await ids(tool(), { ids: ['1-3-1'] })).toEqual(['1-3-1'])
    expect(await ids(tool(), { ids: ['2-3-1'] })).toEqual(['2-3-1'])
    expect(await ids(tool(), { ids: ['messages-3-1'] })).toEqual(['1-3-1', '2-3-1'])
    expect(await ids(tool(), { ids: ['3-1'] })).toEqual(['1-3-1', '2-3-1'])
    expect(await ids(tool(), { ids: ['5-3-1', 'others-3-1', '4-1'] })).toEqual([])
    await expect(tool().show('nonsense')).rejects.toThrow(RangeError)
  })

  test('what is dropped is no longer open, also after a restart, and is kept', async () => {
    const { tool } = await withLetters([letter(1), letter(2), letter(3, 'time-range')])
    expect(await tool().drop({ rule: 'one-value' })).toEqual({ settled: 2, missing: [], shortened: [], refused: [] })
    expect(await ids(tool())).toEqual(['1-3-3'])
    const { letters } = await tool().list({ all: true }, 10)
    expect(letters.map(({ id, state }) => [id, state])).toEqual([
      ['1-3-1', 'dropped'],
      ['1-3-2', 'dropped'],
      ['1-3-3', 'open'],
    ])
    expect(await tool().drop({})).toEqual({ settled: 1, missing: [], shortened: [], refused: [] })
    expect(await tool().drop({})).toEqual({ settled: 0, missing: [], shortened: [], refused: [] })
    expect((await tool().show('3-1'))[0]!.state).toBe('dropped')
  })

  test('ids that no letter has are named, and the others settled', async () => {
    const { tool } = await withLetters([letter(1)])
    expect(await tool().drop({ ids: ['3-1', '3-2', '9-3-1'] })).toEqual({
      settled: 1,
      missing: ['3-2', '9-3-1'],
      shortened: [],
      refused: [],
    })
  })

  test('a replay is the message untouched, with its first position, in the topic of replays', async () => {
    const sent = outgoing({
      payload: new Uint8Array([0, 255, 1]),
      createdRestNs: 7,
      headers: [
        { key: 'trace', value: 'x' },
        { key: 'trace', value: 'y' },
      ],
    })
    const { tool } = await withLetters([letter(1, 'one-value', sent)])
    expect(await tool().replay({ ids: ['1-3-1'] })).toEqual({ settled: 1, missing: [], shortened: [], refused: [] })
    const [replayed] = await messagesOf(topics!.replaysReader())
    const { headers, ...rest } = sent
    expect(replayed).toEqual({
      ...rest,
      headers: [
        ...headers!,
        { key: 'sluice.log', value: '1' },
        { key: 'sluice.partition', value: '3' },
        { key: 'sluice.offset', value: '1' },
      ],
    })
    expect(await ids(tool())).toEqual([])
    expect((await tool().list({ all: true }, 1)).letters[0]!.state).toBe('replayed')
  })

  test('one that fails again after its replay is open again, and may be replayed again', async () => {
    const { tool, put } = await withLetters([letter(1)])
    await tool().replay({})
    await put([letter(1, 'time-range')])
    const { letters } = await tool().list({}, 10)
    expect(letters.map(({ id, rule, state }) => [id, rule, state])).toEqual([['1-3-1', 'time-range', 'open']])
    expect(await tool().replay({ ids: ['1-3-1'] })).toEqual({ settled: 1, missing: [], shortened: [], refused: [] })
    expect(await messagesOf(topics!.replaysReader())).toHaveLength(2)
  })

  test.each(['replay', 'drop'] as const)('a letter that comes while an older one is settled (%s) stays open', async action => {
    const { tool, put } = await withLetters([letter(1), letter(2)])
    const append = topics!.letters.append.bind(topics!.letters)
    topics!.letters.append = async words => {
      topics!.letters.append = append
      await put([letter(1, 'time-range')])
      return append(words)
    }
    expect(await tool()[action]({})).toMatchObject({ settled: 2 })
    const { letters } = await tool().list({}, 10)
    expect(letters.map(({ id, rule, state }) => [id, rule, state])).toEqual([['1-3-1', 'time-range', 'open']])
  })

  test('the word of an older tool, which names no letter, settles whatever lies before it', async () => {
    const { tool, put } = await withLetters([letter(1), letter(1)])
    const word = (offset: string) =>
      outgoing({
        payload: new Uint8Array(0),
        headers: Object.entries({ log: '1', partition: '3', offset, settled: 'dropped' }).map(([name, value]) => ({
          key: `sluice.${name}`,
          value,
        })),
      })
    await topics!.letters.append([word('1')])
    expect(await ids(tool())).toEqual([])
    await put([letter(1)])
    expect(await ids(tool())).toEqual(['1-3-1'])
  })

  test('a message that the log of replays refuses leaves its letter open, is named, and stops no other', async () => {
    const { tool } = await withLetters([letter(1), letter(2, 'one-value', { payload: new Uint8Array(5000) }), letter(3)])
    const append = topics!.replays.append.bind(topics!.replays)
    topics!.replays.append = async messages => {
      if (messages.some(({ payload }) => payload.byteLength > 1000)) throw new MessageRefusedError('too large')
      return append(messages)
    }
    expect(await tool().replay({})).toEqual({ settled: 2, missing: [], shortened: [], refused: ['1-3-2'] })
    expect(await ids(tool())).toEqual(['1-3-2'])
    expect(await messagesOf(topics!.replaysReader())).toHaveLength(2)
  })

  test('an id that names letters of several logs settles none, and says which there are', async () => {
    const { tool } = await withLetters([letter(1), letter(1, 'time-range', {}, 2), letter(2, 'time-range', {}, 2)])
    for (const id of ['3-1', 'messages-3-1']) {
      await expect(tool().drop({ ids: ['3-2', id] })).rejects.toThrow(`the id ${id} is of letters of several logs: give 1-3-1 or 2-3-1`)
      await expect(tool().replay({ ids: [id] })).rejects.toThrow(SystemicError)
    }
    expect(await ids(tool())).toEqual(['1-3-1', '2-3-1', '2-3-2'])
    expect(await tool().drop({ ids: ['2-3-1', 'messages-3-2', 'others-3-1'] })).toMatchObject({ settled: 2, missing: ['others-3-1'] })
    expect(await ids(tool())).toEqual(['1-3-1'])
  })

  test('all of them can be had one after the other', async () => {
    const { tool } = await withLetters(
      Array.from({ length: 1100 }, (_, offset) => letter(offset, offset % 2 === 0 ? 'one-value' : 'other')),
    )
    const found: string[] = []
    for await (const { id } of tool().each({ rule: 'other' })) found.push(id)
    expect([found.length, found[0], found.at(-1)]).toEqual([550, '1-3-1', '1-3-1099'])
  })

  test('one that was dropped by mistake is replayed by its id', async () => {
    const { tool } = await withLetters([letter(1)])
    await tool().drop({})
    expect(await tool().replay({})).toEqual({ settled: 0, missing: [], shortened: [], refused: [] })
    expect(await tool().replay({ ids: ['1-3-1'] })).toEqual({ settled: 1, missing: [], shortened: [], refused: [] })
  })

  test('a letter is replayed before it is settled: where the log of replays is away, it stays open', async () => {
    const { tool } = await withLetters([letter(1)])
    await topics!.replays.close()
    await expect(tool().replay({})).rejects.toThrow(/closed/)
    expect(await ids(tool())).toEqual(['1-3-1'])
  })

  test('headers of a sender do not pass for ours', async () => {
    const forged: Header[] = [
      { key: '__connect.errors.topic', value: 'others' },
      { key: 'sluice.log', value: '9' },
      { key: 'sluice.partition', value: '9' },
      { key: 'sluice.offset', value: '9' },
      { key: 'sluice.rule', value: 'forged' },
      { key: 'sluice.hint', value: 'forged' },
      { key: 'sluice.settled', value: 'dropped' },
    ]
    const { tool } = await withLetters([letter(1, 'one-value', { headers: forged })])
    const [full] = await tool().show('1-3-1')
    expect(full).toMatchObject({ id: '1-3-1', state: 'open', rule: 'one-value', topic: 'messages', hint: 'send a record for each value' })
    expect(full!.headers.map(({ name, value }) => ({ key: name, value }))).toEqual(forged)
    await tool().replay({})
    const [replayed] = await messagesOf(topics!.replaysReader())
    expect(replayed!.headers!.slice(0, forged.length)).toEqual(forged)
    expect(replayed!.headers!.slice(forged.length).map(({ value }) => value)).toEqual(['1', '3', '1'])
  })

  test('what no writer has put into the topic is passed over', async () => {
    const { tool } = await withLetters([letter(1)])
    await topics!.letters.append([
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

  test('a letter that was too short for its message says so, cannot be replayed, and can be dropped', async () => {
    const { tool, put } = await withLetters([letter(7)])
    const append = topics!.letters.append.bind(topics!.letters)
    topics!.letters.append = async messages => {
      if (messages.some(({ payload }) => payload.byteLength > 1000)) throw new MessageRefusedError('too large')
      return append(messages)
    }
    await put([letter(8, 'payload-size', { payload: new Uint8Array(5000), headers: [{ key: 'trace', value: 'x' }] })])
    const [shown] = await tool().show('1-3-8')
    expect(shown).toMatchObject({ rule: 'payload-size', channel: 'c1', payload_bytes: 0, shortened_bytes: 5282, headers: [] })
    expect(await tool().replay({})).toEqual({ settled: 1, missing: [], shortened: ['1-3-8'], refused: [] })
    expect(await ids(tool())).toEqual(['1-3-8'])
    expect(await tool().drop({})).toEqual({ settled: 1, missing: [], shortened: [], refused: [] })
  })

  test('thousands of letters are settled in bounded pieces', async () => {
    const { tool } = await withLetters(
      Array.from({ length: 4000 }, (_, offset) => letter(offset, 'one-value', { payload: new Uint8Array(2000) })),
    )
    expect(await tool().replay({})).toEqual({ settled: 4000, missing: [], shortened: [], refused: [] })
    expect((await messagesOf(topics!.replaysReader())).length).toBe(4000)
    expect((await tool().list({}, 10)).total).toBe(0)
  })
})

async function messagesOf(reader: TopicReader): Promise<(Record<string, unknown> & { headers?: Header[] })[]> {
  const found: (Record<string, unknown> & { headers?: Header[] })[] = []
  const { start, end } = (await reader.bounds()).get(0)!
  for await (const run of reader.read(0, start, end)) {
    const cursor = run.cursor()
    while (cursor.next()) {
      const { offset: _, fault: __, ...message } = cursor.message
      const headers = cursor.headers().filter(({ key }) => !['subtopic', 'publisher', 'protocol', 'created', 'content-type'].includes(key))
      found.push({ ...message, payload: new Uint8Array(message.payload), headers })
    }
  }
  return found
}
