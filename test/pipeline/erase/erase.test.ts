// Erases messages on fakes: what a dry run counts, what goes, and what verify, trace and replays know of it afterwards.

import { expect, test } from 'vitest'
import { expectedRows } from '../../../pipeline/audit/expected-rows.ts'
import { trace } from '../../../pipeline/audit/trace.ts'
import { replay } from '../../../pipeline/dead-letters/replay.ts'
import { type EraseOptions, type EraseParts, type EraseReport, erase } from '../../../pipeline/erase/erase.ts'
import { parseMessageId } from '../../../pipeline/message-id.ts'
import { addDigests, digestOf, textsOf } from '../../../sinks/contents.ts'
import { type ErasureFilter, erasedMessages, erasuresIn, type RetentionOptions } from '../../../sinks/erasure.ts'
import { maintainBy } from '../../conformance/sink/fixture.ts'
import { batchOf, noonUs } from '../../sinks/batches.ts'
import { openFakeErasure } from '../../sinks/fake-erasure.ts'
import { openFakeReplaySink } from '../../sinks/fake-replays.ts'
import { decoderFor, rowAt, type Site, siteWith } from '../audit/site.ts'
import { openFakeTopicReader } from '../fake-topic-reader.ts'
import { pack, text } from '../writer/numbers.ts'

const dayUs = 86_400_000_000
const laterUs = 1_700_000_000_000_000 + dayUs

/** Six messages: two of the thing t1, which one is a dead letter of; three of t2; and an empty one. */
function site(): Promise<Site> {
  const other = { publisher: 't2' }
  return siteWith([
    pack(1, 2),
    text('no numbers'),
    { ...pack(3), ...other },
    { ...pack(4), ...other, channel: 'c2', createdUs: laterUs },
    { ...text('no numbers'), ...other },
    pack(),
  ])
}

function partsOf({ world, audit }: Site): EraseParts {
  return {
    store: openFakeErasure(world.store),
    audit,
    async topicOf() {
      return {
        topic: openFakeTopicReader(world.log),
        retention: { isCompacted: false, keptMs: 604_800_000 },
        deadLetters: { reader: openFakeTopicReader(world.deadLetters), log: world.deadLetters, retention: { isCompacted: false } },
      }
    },
  }
}

const erased = (site: Site, filter: ErasureFilter, options?: EraseOptions): Promise<EraseReport> => erase(partsOf(site), filter, options)
const values = ({ world }: Site): unknown[] => world.store.rows.map(({ value }) => value)
const open = async (site: Site): Promise<string[]> => (await site.deadLetters().list({}, 10)).letters.map(({ id }) => id)

function replayOf({ world, audit }: Site, filter = {}) {
  const parts = {
    reader: openFakeTopicReader(world.deadLetters),
    log: world.deadLetters,
    decoder: decoderFor(),
    audit,
    sinkOf: async (number: number) => openFakeReplaySink(world.store, number),
    topic: 'messages',
    writer: 'writer-1',
  }
  return replay(parts, filter)
}

test('a dry run counts rows and dead letters, says what the logs have, and changes nothing', async () => {
  const these = await site()
  const letters = these.world.deadLetters.messages.length
  expect(await erased(these, { publisher: 't1' }, { dryRun: true })).toEqual({
    erased: false,
    found: { messages: 2 },
    rows: 2,
    dead_letters: 1,
    held: [
      { topic: 'messages', messages: 6, kept_ms: 604_800_000 },
      { topic: 'messages.dead-letters.writer', messages: 2 },
    ],
    absent: [],
  })
  expect([values(these), these.world.store.erasures.size, these.world.deadLetters.messages.length]).toEqual([[1, 2, 3, 4], 0, letters])
})

test.each<[ErasureFilter, unknown[], string[]]>([
  [{ publisher: 't1' }, [3, 4], ['1-0-4']],
  [{ channel: 'c1' }, [4], []],
  [{ channel: 'c1', publisher: 't2' }, [1, 2, 4], ['1-0-1']],
  [{ beforeMs: laterUs / 1000 }, [4], []],
])('of %j the rows and the dead letters are erased, and verify holds', async (filter, left, leftOpen) => {
  const these = await site()
  const before = await these.verify()
  const report = await erased(these, filter)
  expect([values(these), await open(these)]).toEqual([left, leftOpen])
  expect([report.rows, report.dead_letters]).toEqual([4 - left.length, 2 - leftOpen.length])
  const { recount, ...partition } = (await these.verify()).partitions[0]!
  expect(partition).toMatchObject({ holds: true, faults: {} })
  expect(recount.stored + recount.erased).toBe(before.partitions[0]!.recount.stored)
  expect(recount.erased).toBeGreaterThan(0)
  expect((await these.verify({ contents: true })).holds).toBe(true)
})

test('a note says what was erased and how far, and verify finds nothing else missing', async () => {
  const these = await site()
  const { id } = await erase({ ...partsOf(these), clock: () => 7_000 }, { publisher: 't2' })
  expect(erasuresIn([...these.world.store.erasures.values()])).toEqual([
    {
      id,
      publisher: 't2',
      startedMs: 7_000,
      endedMs: 7_000,
      rows: 2,
      deadLetters: 1,
      logs: [{ number: 1, id: these.world.log.id, partitions: { 0: { stored: 6, reached: 6 } } }],
    },
  ])
  these.world.store.rows.splice(rowAt(these, 0), 2)
  expect((await these.verify()).partitions[0]).toMatchObject({ recount: { erased: 2 }, faults: { missing: 1 }, holds: false })
})

test('messages that the writer stores later are not affected, and their rows may not be missing', async () => {
  const these = await siteWith([pack(1), pack(2)])
  await erased(these, { channel: 'c1' })
  await these.world.log.append([pack(3)])
  expect((await erased(these, { channel: 'c1' }, { dryRun: true })).held[0]).toMatchObject({ messages: 3, not_stored: 1 })
  these.world.store.nextOffsets.set('1/0', 3)
  these.books.set('1/0', { ...these.books.get('1/0')!, received: 3, stored: 3 })
  expect((await these.verify()).partitions[0]).toMatchObject({ recount: { erased: 2 }, faults: { missing: 1 } })
})

test('rows that come back are a fault that says what to do', async () => {
  const these = await site()
  const [row] = these.world.store.rows
  await erased(these, { publisher: 't1' })
  these.world.store.rows.push(row!)
  expect((await these.verify()).partitions[0]!.first).toEqual([
    { kind: 'not erased', id: '1-0-0', offset: 0, detail: 'the store has 1 of its rows that were erased: erase them again' },
  ])
  await erased(these, { publisher: 't1' })
  expect((await these.verify()).holds).toBe(true)
})

/** A store whose process ends after it has deleted the first rows, or all. */
function killedStore(store: EraseParts['store'], afterAll = false): EraseParts['store'] {
  const die = () => Promise.reject(new Error('killed'))
  const killed = {
    ...store,
    async erase(...[filter, signal, onErased]: Parameters<typeof store.erase>) {
      killed.note = die
      await store.erase(filter, signal, afterAll ? onErased : die)
      return await die()
    },
  }
  return killed
}

test('an erasure that was killed is finished by the next, and until then nothing that it reaches is missing, and nothing holds', async () => {
  const these = await site()
  const parts = partsOf(these)
  await expect(erase({ ...parts, store: killedStore(parts.store) }, { publisher: 't1' })).rejects.toThrow('killed')
  expect(values(these)).toEqual([1, 3, 4])
  expect(await these.verify()).toMatchObject({ holds: false, erasures_unfinished: 1, partitions: [{ holds: true }] })
  const { id, ...report } = await erased(these, { publisher: 't1' })
  expect(report).toMatchObject({ found: { messages: 1 }, rows: 1, dead_letters: 1 })
  expect([...these.world.store.erasures.keys()]).toEqual([id])
  const { recount } = (await these.verify()).partitions[0]!
  expect([recount.stored, recount.erased]).toEqual([2, 1])
})

test('an erasure is noted before it deletes anything', async () => {
  const these = await site()
  const parts = partsOf(these)
  await expect(erase({ ...parts, store: killedStore(parts.store, true) }, { channel: 'c2' })).rejects.toThrow('killed')
  expect(values(these)).toEqual([1, 2, 3])
  expect(await these.verify()).toMatchObject({ erasures_unfinished: 1, partitions: [{ holds: true, recount: { erased: 1 } }] })
})

test('an erasure that fails has ended: what it has not deleted may stay, and nothing that is stored later may be missing', async () => {
  const these = await site()
  const parts = partsOf(these)
  const failing: EraseParts['store'] = {
    ...parts.store,
    erase: (filter, signal, onErased) =>
      parts.store.erase(filter, signal, async rows => {
        await onErased(rows)
        throw new Error('the store is away')
      }),
  }
  await expect(erase({ ...parts, store: failing, clock: () => 7_000 }, { publisher: 't1' })).rejects.toThrow('the store is away')
  expect(values(these)).toEqual([1, 3, 4])
  const [note] = erasuresIn([...these.world.store.erasures.values()])
  expect(note).toMatchObject({ endedMs: 7_000, rows: 1, deadLetters: 1, logs: [{ partitions: { 0: { stored: 0, reached: 6 } } }] })
  expect(await these.verify()).toMatchObject({ holds: true })
  await erased(these, { publisher: 't1' })
  expect([values(these), (await these.verify()).holds]).toEqual([[3, 4], true])
})

test('a letter that was erased is not replayed, also if the store has lost the note of it', async () => {
  const these = await site()
  await erased(these, { publisher: 't1' })
  these.world.store.erasures.clear()
  expect(await replayOf(these, { ids: ['1-0-1'] })).toMatchObject({ replayed: 0, reasons: [{ reason: 'it was erased: drop it' }] })
})

test('no replay stores what was erased, whether a letter is named, open again or was not found', async () => {
  const these = await siteWith([text('no numbers'), pack(1)])
  await erased(these, { publisher: 't1' })
  these.world.deadLetters.messages.push({ ...these.world.deadLetters.messages[0]!, payload: new TextEncoder().encode('[5]') })
  expect(await open(these)).toEqual(['1-0-0'])
  for (const filter of [{}, { ids: ['1-0-0'] }]) {
    const { replayed, reasons } = await replayOf(these, filter)
    expect([replayed, reasons]).toEqual([0, [{ id: '1-0-0', reason: expect.stringContaining('were erased on ') as string }]])
  }
  expect(values(these)).toEqual([])
})

test.each([true, false])(
  'an erased message that had been replayed is a dead letter still, and not missing; with its letter erased: %s',
  async both => {
    const these = await site()
    const letter = these.world.deadLetters.messages[0]!
    these.world.deadLetters.messages.push({ ...letter, payload: new TextEncoder().encode('[5]') })
    const { replayed } = await replayOf(these, { ids: ['1-0-1'] })
    expect(replayed).toBe(1)
    const parts = partsOf(these)
    const topicOf: EraseParts['topicOf'] = async log => ({ ...(await parts.topicOf(log))!, deadLetters: undefined })
    await erase(both ? parts : { ...parts, topicOf }, { publisher: 't1' })
    expect((await these.verify()).partitions[0]).toMatchObject({ recount: { dead_lettered: 2, replayed: 0, erased: 1 }, holds: true })
  },
)

test('trace says that a message was erased, and when', async () => {
  const these = await site()
  const { id } = await erase({ ...partsOf(these), clock: () => 7_000 }, { publisher: 't1' })
  const traced = (message: string) =>
    trace({ ...these.parts, deadLettersOf: async () => these.deadLetters(), id: parseMessageId(message)! })
  expect(await traced('0-0')).toMatchObject({ state: 'erased', rows: 0, erased: { id, time: '1970-01-01T00:00:07.000Z', rows_left: 0 } })
  expect(await traced('0-1')).toMatchObject({ state: 'dead-lettered', letter: { state: 'erased' } })
  expect(await traced('0-2')).not.toHaveProperty('erased')
})

/** The day after the last message: of what is kept for a day, only that one is left. */
const retainedAt = new Date('2023-11-16T05:00:00Z')
const retain = ({ world }: Site, retention: RetentionOptions): Promise<void> =>
  maintainBy(openFakeErasure(world.store), retention, retainedAt)

test.each<[RetentionOptions, unknown[], { stored: number; erased: number }]>([
  [{ retentionChannels: ['c1:1'] }, [4], { stored: 1, erased: 2 }],
  [{ retentionFormats: ['messages:1', 'other:1'] }, [4], { stored: 1, erased: 2 }],
  [{ retentionChannels: ['c2:0'], retentionFormats: ['other:0'] }, [1, 2, 3], { stored: 2, erased: 1 }],
])(
  'of what retentions delete nothing is missing, and of the rest everything, also when the options change: %j',
  async (retention, left, recount) => {
    const these = await site()
    await retain(these, retention)
    expect(values(these)).toEqual(left)
    await retain(these, { retentionChannels: ['c1:300', 'c2:300'], retentionFormats: ['messages:300'] })
    const report = await these.verify({ contents: true })
    expect(report).toMatchObject({ holds: true, partitions: [{ recount }] })
    expect(report).not.toHaveProperty('erasures_unfinished')
    these.world.store.rows.splice(0)
    expect((await these.verify()).partitions[0]!.faults).toMatchObject({ missing: recount.stored })
  },
)

test('a retention that runs while messages are compared is no fault', async () => {
  const these = await siteWith([pack(1), { ...pack(2), createdUs: laterUs }])
  await retain(these, { retentionChannels: ['c1:2'] })
  expect(values(these)).toEqual([1, 2])
  const messages: Site['audit']['messages'] = async function* (...range) {
    await maintainBy(openFakeErasure(these.world.store), { retentionChannels: ['c1:2'] }, new Date(retainedAt.getTime() + dayUs / 1000))
    yield* these.audit.messages(...range)
  }
  const verifying = these.verify({ audit: { ...these.audit, messages } })
  await expect(verifying).rejects.toThrow('messages were erased while they were compared: verify again')
  expect([values(these), (await these.verify()).holds]).toEqual([[2], true])
})

test('trace says that a retention has deleted a message, unless an erasure has, and goes by the latest', async () => {
  const these = await site()
  const { id } = await erase({ ...partsOf(these), clock: () => Date.parse('2023-11-15T12:00:00Z') }, { publisher: 't1' })
  await retain(these, { retentionChannels: ['c1:1'] })
  const traced = async (message: string) =>
    (await trace({ ...these.parts, deadLettersOf: async () => these.deadLetters(), id: parseMessageId(message)! })).erased
  expect(await traced('0-0')).toMatchObject({ id, rows_left: 0 })
  expect(await traced('0-2')).toMatchObject({ time: retainedAt.toISOString(), rows_left: 0, retention: true })
  expect(await traced('0-3')).toBeUndefined()
})

test('replays store what a retention deletes later, and only what is too old may be missing then', async () => {
  const these = await siteWith([text('no numbers'), { ...text('no numbers'), createdUs: laterUs }])
  await retain(these, { retentionChannels: ['c1:1'] })
  const { messages } = these.world.deadLetters
  messages.push(...messages.map(letter => ({ ...letter, payload: new TextEncoder().encode('[5]') })))
  expect((await replayOf(these)).replayed).toBe(2)
  await retain(these, { retentionChannels: ['c1:1'] })
  expect([values(these), (await these.verify()).holds]).toEqual([[5], true])
  these.world.store.rows.splice(0)
  expect((await these.verify()).partitions[0]!.faults).toMatchObject({ 'replay missing': 1 })
})

test('a store without positions: what its writer has committed was stored before, and what the log has may have been reached', async () => {
  const these = await site()
  const { id } = await erase(
    { ...partsOf(these), committed: async () => ({ group: 'g', offsets: new Map([[0, 2]]) }) },
    { publisher: 't2' },
  )
  expect(erasuresIn([these.world.store.erasures.get(id!)!])[0]!.logs).toEqual([
    { number: 1, id: these.world.log.id, partitions: { 0: { stored: 2, reached: 6 } } },
  ])
})

test('a log whose topic is not there is named', async () => {
  const these = await site()
  const { absent, rows } = await erase({ ...partsOf(these), topicOf: async () => undefined }, { publisher: 't1' })
  expect([absent, rows]).toEqual([[`messages (id ${these.world.log.id})`], 2])
})

test('of a message with rows on both sides of the time, those before it may be gone, and the others may not', () => {
  const records = [{ timeUs: noonUs - 1 }, { timeUs: noonUs, value: 1 }, { timeUs: noonUs + 1, value: 2 }]
  const batch = batchOf(0, 1, [{ offset: 0, records }])
  const erasure = { id: '', startedMs: 0, endedMs: 1, rows: 0, deadLetters: 0, beforeMs: noonUs / 1000 }
  const times = (stored: number) => {
    const logs = [{ number: 1, id: 'id-1', partitions: { 0: { stored, reached: 9 } } }]
    return erasedMessages([{ ...erasure, logs }], { number: 1, id: 'id-1' }).of({ channel: 'c', publisher: 'p' }, 0, 0, undefined)
  }
  expect(expectedRows(batch, 0, 0, times(9))).toMatchObject({ rows: 3, least: 2, most: 2 })
  expect(expectedRows(batch, 0, 0, times(0))).toMatchObject({ rows: 3, least: 2, most: 3 })
  expect(expectedRows(batch, 0, 0, undefined)).toMatchObject({ rows: 3, least: 3, most: 3 })
  const digests = Array.from(textsOf(batch, 0, 0), digestOf)
  expect(expectedRows(batch, 0, 0, times(9)).digest(true)).toBe(addDigests(digests[1]!, digests[2]!))
  expect(expectedRows(batch, 0, 0, times(9)).digest(false)).toBe(digests.reduce(addDigests))
})

test('conditions and logs of erasures are compared exactly', () => {
  const erasure = { id: '', startedMs: 0, endedMs: 1, rows: 0, deadLetters: 0, channel: 'c', publisher: 'p' }
  const logs = [{ number: 1, id: 'id-1', partitions: { 0: { stored: 5, reached: 9 } } }]
  const reaches = (log: { number: number; id: string }, channel: string, publisher: string, partition: number, offset: number) =>
    erasedMessages([{ ...erasure, logs }], log).of({ channel, publisher }, partition, offset, 'messages') !== undefined
  expect(reaches({ number: 1, id: 'id-1' }, 'c', 'p', 0, 8)).toBe(true)
  expect(reaches({ number: 1, id: 'id-1' }, 'c', 'p', 0, 9)).toBe(false)
  expect(reaches({ number: 1, id: 'id-1' }, 'c', 'p', 1, 8)).toBe(false)
  expect(reaches({ number: 1, id: 'id-2' }, 'c', 'p', 0, 8)).toBe(false)
  expect(reaches({ number: 1, id: 'id-1' }, 'c', 'q', 0, 8)).toBe(false)
  expect(reaches({ number: 1, id: 'id-1' }, 'd', 'p', 0, 8)).toBe(false)
})
