// Compares a store with its log: a correct store passes, and every fault is found, named and counted.

import { expect, test } from 'vitest'
import type { OffsetRange } from '../../../pipeline/source.ts'
import type { TopicReader } from '../../../pipeline/topic-reader.ts'
import type { StoreAudit } from '../../../sinks/audit.ts'
import { outgoing } from '../message.ts'
import { pack, text } from '../writer/numbers.ts'
import { decoderFor, everyKind, rowAt, type Site, siteWith } from './site.ts'

test("a correct store passes, and the recount equals the store's ledger", async () => {
  const { verify } = await everyKind()
  const report = await verify()
  expect(report.partitions[0]).toMatchObject({
    checked: { from: 0, to: 8 },
    recount: { received: 8, stored: 3, empty: 1, filtered: 1, dead_lettered: 3, skipped: 0, replayed: 0 },
    ledger: { received: 8, stored: 3, empty: 1, filtered: 1, deadLettered: 3, skipped: 0, duplicate: 0 },
    ledger_covers_more: false,
    in_flight: 0,
    faults: {},
    first: [],
    holds: true,
  })
  expect(report).toMatchObject({ topic: 'messages', log: 1, writer: 'writer-1', holds: true })
})

test("messages above the writer's position are in flight", async () => {
  const { world, verify } = await everyKind()
  await world.log.append([pack(1), pack(2)])
  expect((await verify()).partitions[0]).toMatchObject({ checked: { from: 0, to: 8 }, in_flight: 2, holds: true })
})

test('dropped letters still count as dead letters, but not as open ones', async () => {
  const { deadLetters, verify } = await everyKind()
  expect((await verify()).partitions[0]).toMatchObject({ recount: { dead_lettered: 3, open: 3 } })
  await deadLetters().drop({ ids: ['0-2'] })
  expect((await verify()).partitions[0]).toMatchObject({ recount: { dead_lettered: 3, open: 2, replayed: 0 }, holds: true })
})

/** Resolves letters, although nothing was stored. */
async function resolveAs({ deadLetters }: Site['world'], resolved: 'replayed', ...offsets: number[]): Promise<void> {
  const word = (offset: number) => {
    const letter = deadLetters.messages.findLastIndex(({ headers = [] }) =>
      headers.some(({ key, value }) => key === 'sluice.offset' && value === String(offset)),
    )
    const words = { log: '1', partition: '0', offset: String(offset), settles: `0-${letter}`, settled: resolved }
    const headers = Object.entries(words).map(([name, value]) => ({ key: `sluice.${name}`, value }))
    return outgoing({ payload: new Uint8Array(0), headers })
  }
  await deadLetters.append(offsets.map(word))
}

test('a dead letter that was replayed and stored is counted once, as both', async () => {
  const { world, verify } = await everyKind()
  const row = { ...world.store.rows[0]!, position: (1n << 56n) | 2n }
  world.store.rows.push(row)
  world.store.replayed.add(row.position)
  const report = await verify()
  expect(report.partitions[0]).toMatchObject({ recount: { stored: 3, dead_lettered: 3, replayed: 1 }, holds: true })
})

test('the rows of a replayed message are counted like those of any other decodable message', async () => {
  const site = await everyKind()
  const { world, verify } = site
  world.store.replayed.add((1n << 56n) | 4n)
  const books = site.books.get('1/0')!
  site.books.set('1/0', { ...books, stored: books.stored - 1, deadLettered: books.deadLettered + 1 })
  expect((await verify()).partitions[0]).toMatchObject({ recount: { dead_lettered: 4, replayed: 1 }, holds: true })
  const at = rowAt(site, 4)
  const [row] = world.store.rows.splice(at, 1)
  expect((await verify()).partitions[0]!.faults).toEqual({ 'rows missing': 1 })
  world.store.rows.push(row!, { ...row!, index: 7 })
  expect((await verify()).partitions[0]!.faults).toEqual({ 'surplus rows': 1 })
})

test('a letter that says replayed, without rows in the store, is a fault', async () => {
  const { world, verify } = await everyKind()
  await resolveAs(world, 'replayed', 2, 5)
  const report = await verify()
  expect(report.partitions[0]).toMatchObject({ recount: { dead_lettered: 3, open: 1 }, faults: { 'replay missing': 2 }, holds: false })
  expect(report.partitions[0]!.first.map(({ id }) => id)).toEqual(['1-0-2', '1-0-5'])
})

test('a replayed message that was stored, or has another letter, is not missing', async () => {
  const { world, verify } = await everyKind()
  await resolveAs(world, 'replayed', 2, 5)
  world.store.rows.push({ ...world.store.rows[0]!, position: (1n << 56n) | 2n })
  world.store.replayed.add((1n << 56n) | 2n)
  await world.deadLetters.append([
    world.deadLetters.messages.find(({ headers }) => headers!.some(({ value }) => value === 'store-refused'))!,
  ])
  expect((await verify()).partitions[0]).toMatchObject({ recount: { replayed: 1, open: 2 }, holds: true })
})

test('a replayed message that is now empty or filtered has no rows, and is not missing', async () => {
  const { world, verify } = await everyKind()
  await resolveAs(world, 'replayed', 2, 5)
  expect((await verify({ decoder: decoderFor(['channels.none']) })).partitions[0]!.faults['replay missing']).toBeUndefined()
})

test('the dead letters are those of the writer that owns the store', async () => {
  const site = await everyKind()
  const asked: string[] = []
  const { deadLettersOf: lettersOf } = site.parts
  await site.verify({ deadLettersOf: writer => (asked.push(writer), lettersOf(writer)) })
  expect(asked).toEqual(['writer-1'])
})

test('a refused message with rows counts as dead-lettered', async () => {
  const site = await everyKind()
  for (const index of [0, 7]) site.world.store.rows.push({ ...site.world.store.rows[0]!, position: (1n << 56n) | 5n, index })
  const { first } = (await site.verify()).partitions[0]!
  expect(first).toContainEqual({
    kind: 'surplus rows',
    id: '1-0-5',
    offset: 5,
    detail: 'the store has 2 rows for its 1; it has a dead letter',
  })
})

test('rows that the store kept of a refused message are explained by its letter, and hide no other fault', async () => {
  const site = await everyKind()
  const { world, verify } = site
  const refused = world.deadLetters.messages.findIndex(deadLetter => deadLetter.headers!.some(({ value }) => value === 'store-refused'))
  const [deadLetter] = world.deadLetters.messages.splice(refused, 1)
  // The message at 4 has three rows: the store kept two of them and said so, and the writer died; the next letter does not say so.
  const of = (offset: number, more: { key: string; value: string }[] = []) => ({
    ...deadLetter!,
    headers: [
      ...deadLetter!.headers!.map(header => (header.key === 'sluice.offset' ? { ...header, value: String(offset) } : header)),
      ...more,
    ],
  })
  await world.deadLetters.append([of(5), of(4, [{ key: 'sluice.partial', value: 'true' }]), of(4)])
  world.store.rows.splice(rowAt(site, 4), 1)
  const books = site.books.get('1/0')!
  site.books.set('1/0', { ...books, stored: books.stored - 1, deadLettered: books.deadLettered + 1 })
  expect((await verify()).partitions[0]).toMatchObject({ recount: { stored: 2, dead_lettered: 4, partial: 1 }, holds: true })
  // With other options the message would not be stored now; its rows are still explained.
  const filtering = await verify({ decoder: decoderFor(['channels.none']) })
  expect(filtering.partitions[0]!.first.map(({ id }) => id)).not.toContain('1-0-4')

  remove(site, 6)
  const report = await verify()
  expect(report.partitions[0]!.faults).toEqual({ missing: 1, ledger: 1 })
  expect(report.partitions[0]!.first[0]!.id).toBe('1-0-6')
})

test('all rows of a message with a partial letter count as stored, and a surplus row is a fault', async () => {
  const site = await everyKind()
  const { world, verify } = site
  const deadLetter = world.deadLetters.messages.find(({ headers }) => headers!.some(({ value }) => value === 'store-refused'))!
  const headers = deadLetter.headers!.map(header => (header.key === 'sluice.offset' ? { ...header, value: '4' } : header))
  await world.deadLetters.append([{ ...deadLetter, headers: [...headers, { key: 'sluice.partial', value: 'true' }] }])
  expect((await verify()).partitions[0]).toMatchObject({ recount: { stored: 3, dead_lettered: 3, partial: 0 }, holds: true })
  world.store.rows.push({ ...world.store.rows[rowAt(site, 4)]!, index: 7 })
  expect((await verify()).partitions[0]!.faults).toEqual({ 'surplus rows': 1 })
})

/** The damage to the store or the letters, and the expected faults. */
const damages: Record<string, [damage: (site: Site) => void, faults: object, id: string]> = {
  'a message is gone': [site => remove(site, 6), { missing: 1, ledger: 1 }, '1-0-6'],
  'one of the rows of a message is gone': [site => void site.world.store.rows.splice(rowAt(site, 4), 1), { 'rows missing': 1 }, '1-0-4'],
  'a row is there twice': [site => void site.world.store.rows.push(site.world.store.rows[rowAt(site, 4)]!), { doubled: 1 }, '1-0-4'],
  'a message has a row too many': [
    site => void site.world.store.rows.push({ ...site.world.store.rows[rowAt(site, 4)]!, index: 7 }),
    { 'surplus rows': 1 },
    '1-0-4',
  ],
  'there are rows of an empty message': [site => addRow(site, 1), { 'surplus rows': 1 }, '1-0-1'],
  'there are rows of a filtered message': [site => addRow(site, 3), { 'surplus rows': 1 }, '1-0-3'],
  'there are rows of an undecodable message': [site => addRow(site, 2), { 'surplus rows': 1 }, '1-0-2'],
  'a dead letter is gone': [site => void site.world.deadLetters.messages.splice(0, 1), { 'missing dead letter': 1, ledger: 1 }, '1-0-2'],
  'the dead letter of a refused message is gone': [
    site =>
      void site.world.deadLetters.messages.splice(
        site.world.deadLetters.messages.findIndex(deadLetter => deadLetter.headers!.some(({ value }) => value === 'store-refused')),
        1,
      ),
    { missing: 1, ledger: 1 },
    '1-0-5',
  ],
  'the books say another number': [
    site => void site.books.set('1/0', { ...site.books.get('1/0')!, stored: 2, empty: 2 }),
    { ledger: 2 },
    '1-0',
  ],
  'the books do not add up': [site => void site.books.set('1/0', { ...site.books.get('1/0')!, stored: 4 }), { ledger: 2 }, '1-0'],
  'the log ends before the store': [site => void site.world.log.messages.splice(7, 1), { log: 1, ledger: 2 }, '1-0'],
}

test.each(Object.entries(damages))('%s: is found, with its place', async (_what, [damage, faults, id]) => {
  const site = await everyKind()
  damage(site)
  const report = await site.verify()
  expect(report.holds).toBe(false)
  expect(report.partitions[0]!.faults).toEqual(faults)
  expect(report.partitions[0]!.first[0]!.id).toBe(id)
})

test('of many faults the first are named, and all are counted', async () => {
  const site = await siteWith(Array.from({ length: 100 }, (_, at) => pack(at)))
  site.world.store.rows.length = 0
  const [partition] = (await site.verify()).partitions
  expect(partition!.faults.missing).toBe(100)
  expect(partition!.first.map(({ id }) => id)).toEqual(Array.from({ length: 10 }, (_, at) => `1-0-${at}`))
})

test('messages that the log deleted after they were stored are not compared, and the report says that the ledger covers more', async () => {
  const site = await siteWith([pack(1), pack(2), text('bad'), pack(4)])
  site.world.log.deleteBelow(2)
  const report = await site.verify()
  expect(report.partitions[0]).toMatchObject({
    checked: { from: 2, to: 4 },
    recount: { received: 2, stored: 1, dead_lettered: 1 },
    ledger_covers_more: true,
    holds: true,
  })
})

test('messages that the log deletes during the audit are not compared either', async () => {
  const site = await siteWith(Array.from({ length: 30 }, (_, at) => pack(at)))
  const { reader } = site.parts
  let runs = 0
  const deleting = {
    ...reader,
    async *read(partition: number, from: number, to: number) {
      for await (const chunk of reader.read(partition, from, to)) {
        yield chunk
        if (++runs === 2) site.world.log.deleteBelow(20)
      }
    },
  }
  const [partition] = (await site.verify({ reader: deleting })).partitions
  expect(partition).toMatchObject({ recount: { received: 16, stored: 16 }, unchecked: 14, ledger_covers_more: true, holds: true })
})

/** The messages of the log without those at these offsets, as after compaction; markers are in the chunk that covers them. */
function compacted(reader: TopicReader, gone: readonly number[], markers: readonly OffsetRange[] = []): TopicReader {
  return {
    ...reader,
    async *read(partition, from, to) {
      for await (const chunk of reader.read(partition, from, to)) {
        const own = markers.filter(marker => marker.from >= chunk.from && marker.to <= chunk.to)
        yield {
          ...chunk,
          ...(own.length === 0 ? {} : { markers: own }),
          cursor() {
            const cursor = chunk.cursor()
            const next = (): boolean => cursor.next() && (!gone.includes(cursor.message.offset) || next())
            return { ...cursor, message: cursor.message, next }
          },
        }
      }
    },
  }
}

test('messages that the log has compacted away are not compared; what the ledger counts of them is no fault', async () => {
  const site = await siteWith(Array.from({ length: 9 }, (_, at) => (at === 7 ? pack() : pack(at))))
  const reader = compacted(site.parts.reader, [0, 3, 4, 7, 8])
  expect((await site.verify({ reader })).partitions[0]).toMatchObject({
    checked: { from: 0, to: 9 },
    recount: { received: 4, stored: 4, skipped: 0, deleted: 5, deleted_stored: 4 },
    ledger: { received: 9, stored: 8, empty: 1 },
    ledger_covers_more: true,
    faults: {},
    holds: true,
  })
})

test('rows that no reader shows count as missing, and are named, also where the log has deleted their message', async () => {
  const site = await siteWith(Array.from({ length: 5 }, (_, at) => pack(at)))
  const reader = compacted(site.parts.reader, [4])
  const audit: StoreAudit = {
    ...site.parts.audit,
    async *messages(...of) {
      for await (const message of site.parts.audit.messages(...of)) yield message.offset < 3 ? message : { ...message, rows: 0, hidden: 1 }
    },
  }
  const [partition] = (await site.verify({ reader, audit })).partitions
  expect(partition).toMatchObject({ faults: { missing: 1, 'hidden rows': 2 }, recount: { deleted: 1, deleted_stored: 0 } })
  expect(partition!.first[0]!.detail).toBe('1 of its rows are shown by no reader: the store lacks the series that they name')
})

test('compaction hides no fault of what is left, no doubled row, and no ledger that counts less than there is', async () => {
  const site = await siteWith(Array.from({ length: 9 }, (_, at) => pack(at)))
  const reader = compacted(site.parts.reader, [4, 8])
  remove(site, 3)
  site.world.store.rows.push(site.world.store.rows[rowAt(site, 8)]!)
  const books = site.books.get('1/0')!
  site.books.set('1/0', { ...books, stored: 5, empty: 4 })
  const [partition] = (await site.verify({ reader })).partitions
  expect(partition!.faults).toEqual({ missing: 1, doubled: 1, ledger: 1 })
  expect(partition!.first.map(({ id }) => id)).toEqual(['1-0-3', '1-0-8', '1-0'])
})

test('rows at the offset of a transaction marker are surplus, also beside messages that were compacted away', async () => {
  const site = await siteWith(Array.from({ length: 12 }, (_, at) => pack(at)))
  const markers = [
    { from: 0, to: 1 },
    { from: 7, to: 9 },
  ]
  const reader = compacted(site.parts.reader, [0, 4, 6, 7, 8], markers)
  const [partition] = (await site.verify({ reader })).partitions
  expect(partition).toMatchObject({ recount: { received: 7, skipped: 3, deleted: 2, deleted_stored: 2 }, faults: { 'surplus rows': 3 } })
  expect(partition!.first.slice(0, 3).map(({ id }) => id)).toEqual(['1-0-0', '1-0-7', '1-0-8'])
})

test('a message that was read twice is a duplicate in the ledger only, which is no fault', async () => {
  const site = await siteWith([pack(1), pack(2)])
  site.books.set('1/0', { ...site.books.get('1/0')!, received: 3, duplicate: 1 })
  expect((await site.verify()).partitions[0]).toMatchObject({ recount: { received: 2 }, ledger_covers_more: false, holds: true })
})

test('if the dead-letter topic has lost its start, a missing letter is assumed to have existed', async () => {
  const { world, verify } = await everyKind()
  world.deadLetters.deleteBelow(2)
  const report = await verify()
  expect(report.letters_lost_below).toEqual({ 0: 2 })
  expect(report.partitions[0]).toMatchObject({ recount: { dead_lettered: expect.any(Number) } })
  expect(report.partitions[0]!.faults['missing dead letter']).toBeUndefined()
})

test('without a dead-letter topic there are no letters', async () => {
  const site = await siteWith([pack(1)])
  expect((await site.verify({ deadLettersOf: async () => undefined })).holds).toBe(true)
  const bad = await siteWith([pack(1), text('bad')])
  expect((await bad.verify({ deadLettersOf: async () => undefined })).partitions[0]!.faults).toEqual({
    'missing dead letter': 1,
    ledger: 1,
  })
})

test('a log that the store does not know cannot be compared', async () => {
  const site = await siteWith([pack(1)])
  const { reader } = site.parts
  await expect(site.verify({ reader: { ...reader, name: 'others' } })).rejects.toThrow(/does not know the log "others"/)
  await expect(site.verify({ reader: { ...reader, id: 'made-anew' } })).rejects.toThrow(/"messages" \(id made-anew\) is not the one/)
})

test("the position of a store that keeps none is its group's; without commits the error names the group and its option", async () => {
  const site = await siteWith([pack(1), pack(2)])
  const committedAs = (offsets: Map<number, number>) => async (writer: string) => ({ group: `${writer}.messages`, offsets })
  const { partitions } = await site.verify({ committed: committedAs(new Map([[0, 1]])) })
  expect(partitions[0]).toMatchObject({ checked: { from: 0, to: 1 }, in_flight: 1 })
  await expect(site.verify({ committed: committedAs(new Map()) })).rejects.toThrow(
    /^the consumer group writer-1\.messages of the writer writer-1 has no committed offsets for the topic messages, .*log\.group \(SVC_LOG_GROUP\)/,
  )
})

test('progress is reported up to the total', async () => {
  const site = await siteWith(Array.from({ length: 30 }, (_, at) => pack(at)))
  const told: [number, number][] = []
  await site.verify({ onProgress: (done, total) => void told.push([done, total]) })
  expect(told.at(-1)).toEqual([30, 30])
  expect(told.length).toBeGreaterThan(3)
})

function remove(site: Site, offset: number): void {
  site.world.store.rows.splice(rowAt(site, offset), 1)
}

function addRow(site: Site, offset: number): void {
  site.world.store.rows.push({ ...site.world.store.rows[0]!, position: (1n << 56n) | BigInt(offset) })
}

test('of several writers of a topic the one that is named is compared, with its own rows', async () => {
  const { world, verify } = await everyKind()
  world.store.logs.push({ ...world.store.logs[0]!, number: 2, writer: 'other' })
  expect(await verify({ writer: 'writer-1' })).toMatchObject({ writer: 'writer-1', log: 1, holds: true })
  expect(await verify({ writer: 'other' })).toMatchObject({ writer: 'other', log: 2, holds: true, partitions: [{ checked: { to: 0 } }] })
  await expect(verify({ writer: 'nobody' })).rejects.toThrow(/from the writer nobody: choose another with --writer \(other, writer-1\)/)
})

test('letters of an earlier topic, whose number the log has now, do not count', async () => {
  const { world, verify } = await siteWith([pack(1), text('no numbers')])
  const [letter] = world.deadLetters.messages
  const headersNaming = (id: string) => letter!.headers!.map(header => (header.key === 'sluice.log-id' ? { ...header, value: id } : header))
  world.deadLetters.messages[0] = { ...letter!, headers: headersNaming('before') }
  expect((await verify()).partitions[0]).toMatchObject({ faults: { 'missing dead letter': 1 } })
  world.deadLetters.messages[0] = { ...letter!, headers: headersNaming(world.log.id) }
  expect((await verify()).holds).toBe(true)
})
