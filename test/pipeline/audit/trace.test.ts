// Traces one message through each stage.

import { expect, test } from 'vitest'
import { type TraceParts, type TraceReport, trace } from '../../../pipeline/audit/trace.ts'
import { parseMessageId } from '../../../pipeline/message-id.ts'
import { pack, text } from '../writer/numbers.ts'
import { decoderFor, type Site, siteWith } from './site.ts'

async function traced(site: Site, id: string, more: Partial<TraceParts> = {}): Promise<TraceReport> {
  return trace({ ...site.parts, deadLettersOf: async () => site.deadLetters(), id: parseMessageId(id)!, ...more })
}

const site = (): Promise<Site> => siteWith([pack(1, 2), text('no numbers'), pack(), { ...pack(3), channel: 'c2' }])

test('a stored message: received, matched, decoded, stored, and where it can be read', async () => {
  expect(await traced(await site(), 'messages-0-0')).toEqual({
    id: '1-0-0',
    topic: 'messages',
    writer: 'writer-1',
    position: 4,
    received: {
      time: '2023-11-14T22:13:20.000000000Z',
      channel: 'c1',
      subtopic: 'room.temperature',
      publisher: 't1',
      protocol: 'http',
      content_type: 'application/senml+json',
      bytes: 5,
    },
    matched: true,
    decoded: { records: 2, format: 'messages' },
    state: 'stored',
    rows: 2,
    read: '/channels/c1/messages',
  })
})

test("an undecodable message: its rule, its dead letter and the letter's state", async () => {
  const these = await site()
  const refused = { rule: 'numbers', reason: 'the root is no array', hint: 'send an array of numbers' }
  expect(await traced(these, '1-0-1')).toMatchObject({
    refused,
    state: 'dead-lettered',
    rows: 0,
    letter: { state: 'open', rule: 'numbers' },
  })
  await these.deadLetters().drop({})
  expect(await traced(these, '0-1')).toMatchObject({ state: 'dead-lettered', letter: { state: 'dropped' } })
})

test('an empty message, and one that no subject matches', async () => {
  const these = await site()
  expect(await traced(these, '0-2')).toMatchObject({ matched: true, state: 'empty' })
  expect(await traced(these, '0-3', { decoder: decoderFor(['channels.c1.>']) })).toMatchObject({ matched: false })
  const filtering = await siteWith([pack(1), { ...pack(3), channel: 'c2' }], { subjects: ['channels.c1.>'] })
  expect(await traced(filtering, '0-1', { decoder: decoderFor(['channels.c1.>']) })).toMatchObject({ matched: false, state: 'filtered' })
})

test('a waiting message, and one whose writer is in trouble', async () => {
  const these = await site()
  await these.world.log.append([pack(1), pack(2)])
  expect(await traced(these, '0-4')).toMatchObject({ state: 'waiting' })
  expect(await traced(these, '0-5')).toMatchObject({ state: 'waiting', position: 4, decoded: { records: 1 } })
  const trouble = (): string => 'the store is away'
  expect(await traced(these, '0-5', { trouble })).toMatchObject({ state: 'retrying', trouble: 'the store is away' })
  expect(await traced(these, '0-0', { trouble })).not.toHaveProperty('trouble')
})

test('a message that should be in the store but is not', async () => {
  const these = await site()
  these.world.store.rows.length = 0
  expect(await traced(these, '0-0')).toMatchObject({ state: 'missing', rows: 0 })
})

test('a message of which the store kept a row before it refused another is dead-lettered, until all its rows are there', async () => {
  const these = await site()
  const { deadLetters, store } = these.world
  const deadLetter = deadLetters.messages[0]!
  const headers = deadLetter.headers!.map(header => (header.key === 'sluice.offset' ? { ...header, value: '0' } : header))
  await deadLetters.append([{ ...deadLetter, headers: [...headers, { key: 'sluice.partial', value: 'true' }] }])
  const [row] = store.rows.splice(0, 1)
  expect(await traced(these, '0-0')).toMatchObject({ state: 'dead-lettered', rows: 1, letter: { partial: true } })
  store.rows.push(row!)
  expect(await traced(these, '0-0')).toMatchObject({ state: 'stored', rows: 2 })
})

test('a message that the log no longer has, or does not have yet', async () => {
  const these = await site()
  these.world.log.deleteBelow(2)
  expect(await traced(these, '0-0')).toMatchObject({ state: 'unknown', absent: 'the log has deleted it: the partition starts at offset 2' })
  expect(await traced(these, '0-1')).toMatchObject({ state: 'dead-lettered', letter: { rule: 'numbers' } })
  expect(await traced(these, '0-9')).toMatchObject({ state: 'unknown', absent: expect.stringContaining('ends at offset 4') })
})

test('an id of another log or partition is reported', async () => {
  const these = await site()
  await expect(traced(these, 'others-0-0')).rejects.toThrow(/from the log "others".*reads "messages", which is number 1/)
  await expect(traced(these, '2-0-0')).rejects.toThrow(/from the log "2"/)
  await expect(traced(these, '1-7-0')).rejects.toThrow(/has no partition 7/)
})

test.each([
  ['1-0-7', { log: '1', partition: 0, offset: 7 }],
  ['field-7.messages-11-17592186044415', { log: 'field-7.messages', partition: 11, offset: 17592186044415 }],
  ['3-4', { log: '', partition: 3, offset: 4 }],
  ['1-4096-0', undefined],
  ['1-0-17592186044416', undefined],
  ['1-0', { log: '', partition: 1, offset: 0 }],
  ['messages', undefined],
  ['1-0-', undefined],
  ['1--1', undefined],
])('the id %s', (id, expected) => {
  expect(parseMessageId(id)).toEqual(expected)
})
