// How dead letters are appended: in groups that fit through the queue of their log.

import { expect, test } from 'vitest'
import { type Header, type Log, MessageRefusedError, messageSize, type OutgoingMessage } from '../../../pipeline/log.ts'
import { emptyMessage } from '../../../pipeline/source.ts'
import { SystemicError } from '../../../pipeline/systemic-error.ts'
import { type DeadLetter, deadLettersOf, openDeadLetters } from '../../../pipeline/writer/dead-letters.ts'
import { logPartition } from '../../../transformers/log-partition.ts'
import { plainBatch } from '../../sinks/batches.ts'
import { outgoing } from '../message.ts'

test('ten thousand small letters are appended in groups of a mebibyte, headers counted', async () => {
  const groups: number[] = []
  let letters = 0
  const log: Log = {
    name: 'messages.dead-letters.w',
    id: 'id',
    append: async messages => {
      groups.push(messages.reduce((bytes, message) => bytes + messageSize(message), 0))
      letters += messages.length
      return messages.map((_, offset) => ({ partition: 0, offset }))
    },
    close: async () => undefined,
  }
  const deadLetters = openDeadLetters({ logOf: async () => log, topics: ['messages'], logIds: ['id-1'], logNumbers: [1], writer: 'w' })
  const rejection = { message: 0, rule: 'one-value', reason: 'both v and vs', hint: 'send one record per value' }
  const deadLetter = (offset: number): DeadLetter => ({ stage: 'decode', at: logPartition(0, 0), offset, rejection, message: outgoing() })
  await deadLetters.put(Array.from({ length: 10_000 }, (_, offset) => deadLetter(offset)))
  expect(letters).toBe(10_000)
  expect(Math.max(...groups)).toBeLessThanOrEqual(1024 * 1024)
  expect(groups.length).toBeLessThan(20)
})

test('letters of several logs go to the log of each, together as few appends as possible, and name the topic of each', async () => {
  const appends: string[] = []
  const opened: number[] = []
  const logOf = async (log: number) => {
    opened.push(log)
    return {
      append: async (messages: readonly OutgoingMessage[]) => {
        const value = (headers: readonly Header[], name: string) => String(headers.find(({ key }) => key === name)?.value)
        const topics = messages.map(({ headers = [] }) => `${value(headers, '__connect.errors.topic')} ${value(headers, 'sluice.log')}`)
        appends.push(`${log}: ${topics.join(', ')}`)
        return []
      },
    }
  }
  const deadLetters = openDeadLetters({
    logOf,
    topics: ['hall', 'line', 'plant'],
    logIds: ['id-1', 'id-2', 'id-3'],
    logNumbers: [7, 8, 9],
    writer: 'w',
  })
  expect(opened).toEqual([])
  const rejection = { message: 0, rule: 'one-value', reason: 'both v and vs' }
  const of = [2, 0, 2, 0].map(
    (log, offset): DeadLetter => ({ stage: 'decode', at: logPartition(log, 1), offset, rejection, message: outgoing() }),
  )
  await deadLetters.put(of)
  expect(appends).toEqual(['2: plant 9, plant 9', '0: hall 7, hall 7'])
  expect(opened).toEqual([2, 0])
})

test('a message too large for its letter is dead-lettered without its content, and does not prevent others', async () => {
  const taken: OutgoingMessage[] = []
  const log: Log = {
    name: 'messages.dead-letters.w',
    id: 'id',
    append: async messages => {
      if (messages.some(message => messageSize(message) > 100_000)) throw new MessageRefusedError('too large')
      taken.push(...messages)
      return messages.map((_, offset) => ({ partition: 0, offset }))
    },
    close: async () => undefined,
  }
  const deadLetters = openDeadLetters({ logOf: async () => log, topics: ['messages'], logIds: ['id-1'], logNumbers: [1], writer: 'w' })
  const rejection = { message: 0, rule: 'payload-size', reason: 'too large', hint: 'send less' }
  const large = { payload: new Uint8Array(200_000), headers: [{ key: 'trace', value: 'x' }] }
  const various = [
    outgoing(),
    outgoing(large),
    // One with an unreadable envelope, and one with a large envelope.
    outgoing({ ...large, key: new Uint8Array(500_000) }),
    outgoing({ channel: 'c'.repeat(200_000) }),
    outgoing(),
  ].map((message, offset): DeadLetter => ({ stage: 'decode', at: logPartition(0, 0), offset, rejection, message }))
  await deadLetters.put(various.values())

  const header = ({ headers = [] }: OutgoingMessage, name: string) => headers.find(({ key }) => key === name)?.value
  expect(taken.map(message => [header(message, 'sluice.offset'), header(message, 'sluice.shortened')])).toEqual([
    ['0', undefined],
    ['1', '200282'],
    ['2', '700282'],
    ['3', '200277'],
    ['4', undefined],
  ])
  expect(taken[1]).toMatchObject({ channel: 'c1', subtopic: 'room.temperature', createdUs: 1_700_000_000_000_000 })
  expect(taken[1]!.key).toBeUndefined()
  for (const message of taken.slice(2, 4)) expect(message).toMatchObject({ channel: '', key: null })
  for (const message of taken.slice(1, 4)) {
    expect(message.payload.byteLength).toBe(0)
    expect(header(message, 'trace')).toBeUndefined()
    expect(header(message, 'sluice.rule')).toBe('payload-size')
  }
})

/** Dead letters in a log that refuses what `refuses` is true for, and what they became. */
function putInto(refuses: (message: OutgoingMessage) => boolean) {
  const taken: OutgoingMessage[] = []
  const append = async (messages: readonly OutgoingMessage[]) => {
    if (messages.some(refuses)) throw new MessageRefusedError('the topic accepts no such message')
    taken.push(...messages)
    return []
  }
  const deadLetters = openDeadLetters({
    logOf: async () => ({ append }),
    topics: ['messages'],
    logIds: ['id-1'],
    logNumbers: [1],
    writer: 'w',
  })
  return { taken, put: (some: Iterable<DeadLetter>) => deadLetters.put(some) }
}

const valueOf = ({ headers = [] }: OutgoingMessage, name: string) => headers.findLast(({ key }) => key === name)?.value

test('if a log refuses a message also without its content, its dead letter has nothing that came from the message', async () => {
  const { taken, put } = putInto(({ channel, publisher }) => channel !== '' || publisher !== '')
  const at = logPartition(0, 3)
  const rejection = { message: 0, rule: 'store-refused', reason: 'quoted', hint: 'quoted', record: 4, partial: true } as const
  await put([
    { stage: 'store', at, offset: 17, rejection, message: outgoing() },
    { stage: 'decode', at, offset: 18, rejection, message: outgoing({ channel: '', publisher: '' }) },
  ])
  expect(taken).toHaveLength(2)
  const { headers, createdUs, ...bare } = taken[0]!
  expect(Math.abs(createdUs / 1000 - Date.now())).toBeLessThan(60_000)
  expect(bare).toEqual({
    channel: '',
    subtopic: '',
    publisher: '',
    protocol: '',
    contentType: '',
    createdRestNs: 0,
    payload: new Uint8Array(0),
    // A compacted topic needs one.
    key: Buffer.from('3-17'),
  })
  expect(headers).toEqual([
    { key: '__connect.errors.topic', value: 'messages' },
    { key: '__connect.errors.stage', value: 'TASK_PUT' },
    { key: 'sluice.log', value: '1' },
    { key: 'sluice.log-id', value: 'id-1' },
    { key: 'sluice.partition', value: '3' },
    { key: 'sluice.offset', value: '17' },
    { key: 'sluice.rule', value: 'store-refused' },
    { key: 'sluice.partial', value: 'true' },
    { key: 'sluice.shortened', value: String(messageSize(outgoing())) },
  ])
  expect(valueOf(taken[1]!, 'sluice.shortened')).toBeUndefined()
})

test('if a log refuses every dead letter, one sentence says which topic to correct', async () => {
  const { put } = putInto(() => true)
  const rejection = { message: 0, rule: 'one-value', reason: 'both v and vs' }
  await expect(put([{ stage: 'decode', at: logPartition(0, 0), offset: 1, rejection, message: outgoing() }])).rejects.toThrow(
    new SystemicError(
      'the topic messages.dead-letters.w refuses even a dead letter that has only the position of its message (the topic accepts no such message): correct its settings',
    ),
  )
})

test('a reason and a hint that quote a long text are cut, and are text', async () => {
  const { taken, put } = putInto(() => false)
  const long = '\u{1F321}'.repeat(5000)
  const rejection = { message: 0, rule: 'store-refused', reason: `x${long}`, hint: long }
  await put([{ stage: 'store', at: logPartition(0, 0), offset: 1, rejection, message: outgoing() }])
  for (const name of ['__connect.errors.exception.message', 'sluice.hint']) {
    const text = String(valueOf(taken[0]!, name))
    expect(text).toMatch(/^x?\u{1F321}+\ufffd?…$/u)
    expect(text.length).toBe(2049)
  }
})

test('a rejection of a message that is in no chunk is an error, after the letters of all others', () => {
  const chunk = {
    at: logPartition(0, 0),
    from: 0,
    to: 2,
    byteLength: 1,
    cursor() {
      const message = emptyMessage()
      return { message, next: () => ++message.offset < 2, key: () => null, headers: () => [] }
    },
  }
  const pending = { batch: plainBatch(0, 3), chunks: [chunk], rejections: [], firstCreatedUs: new Map(), bytes: 0, heldBytes: 0 }
  const rejections = [2, 1].map(message => ({ message, rule: 'store-refused', reason: 'no' }))
  const offsets: number[] = []
  const put = (): void => {
    for (const { offset } of deadLettersOf(pending, rejections, 'store')) offsets.push(offset)
  }
  expect(put).toThrow(
    new SystemicError('a rejection (store-refused) names message 2, which is not in its batch: this is a bug in the sink, report it'),
  )
  expect(offsets).toEqual([1])
})
