// A store held against its log: what is right holds, and whatever is wrong is found, named and counted.

import { expect, test } from 'vitest'
import { outgoing } from '../message.ts'
import { pack, text } from '../numbers.ts'
import { decoderFor, type Site, siteWith } from './site.ts'

/** Eight messages, one of each kind: stored, empty, undecodable, filtered, of several rows, refused by the store. */
async function everyKind(): Promise<Site> {
  const other = { ...pack(5), channel: 'c2' }
  const messages = [pack(1), pack(), text('no numbers'), other, pack(6, 7, 8), pack(13), pack(9), outgoing({ channel: '' })]
  const refusing = await siteWith(messages, {
    subjects: ['channels.c1.>'],
    wrapSink: sink => ({
      ...sink,
      async write(encoded, reject, signal) {
        const { batch, acknowledged } = encoded
        const at = batch.messages.offset.indexOf(5)
        if (at >= 0 && at < batch.messages.length && !acknowledged.has(at)) {
          encoded.rejected.set(at, { message: at, rule: 'store-refused', reason: 'unlucky' })
        }
        return sink.write(encoded, reject, signal)
      },
    }),
  })
  return { ...refusing, verify: more => refusing.verify({ decoder: decoderFor(['channels.c1.>']), ...more }) }
}

test('what a writer has passed holds, and its recount is what the books of the store say', async () => {
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

test('what the writer has not passed is in flight', async () => {
  const { world, verify } = await everyKind()
  await world.log.append([pack(1), pack(2)])
  expect((await verify()).partitions[0]).toMatchObject({ checked: { from: 0, to: 8 }, in_flight: 2, holds: true })
})

test('letters that were dropped or replayed count as the letters that they are', async () => {
  const { letters, verify } = await everyKind()
  await letters().drop({ ids: ['0-2'] })
  await letters().replay({ ids: ['0-5'] })
  expect((await verify()).partitions[0]).toMatchObject({ recount: { dead_lettered: 3, replayed: 0 }, holds: true })
})

test('a dead letter that was replayed and stored since is counted once, as both', async () => {
  const { world, verify } = await everyKind()
  const row = { ...world.store.rows[0]!, position: (1n << 56n) | 2n }
  world.store.rows.push(row)
  world.store.replayed.add(row.position)
  const report = await verify()
  expect(report.partitions[0]).toMatchObject({ recount: { stored: 3, dead_lettered: 3, replayed: 1 }, holds: true })
})

test('the rows of a replayed message are counted like those of any other that can be decoded', async () => {
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

test('a replay that the writer has passed without rows or another dead letter is missing', async () => {
  const { world, replays, letters, verify } = await everyKind()
  expect((await letters().replay({ ids: ['0-2', '0-5'] })).settled).toBe(2)
  // It waits.
  expect((await verify()).holds).toBe(true)
  world.store.logs.push({ name: replays.name, id: replays.id, writer: 'writer-1' })
  world.store.nextOffsets.set('2/0', 1)
  expect((await verify()).holds).toBe(true)
  world.store.nextOffsets.set('2/0', 2)
  const report = await verify()
  expect(report.partitions[0]).toMatchObject({ recount: { dead_lettered: 3 }, faults: { 'replay missing': 2 }, holds: false })
  expect(report.partitions[0]!.first.map(({ id }) => id)).toEqual(['1-0-2', '1-0-5'])
  // The topic is gone, or another one: nothing waits in it.
  expect((await verify({ replaysOf: async () => undefined })).partitions[0]!.faults).toEqual({ 'replay missing': 2 })
})

test('a replay after which the message was stored, or failed again, is not missing', async () => {
  const { world, letters, verify } = await everyKind()
  await letters().replay({ ids: ['0-2', '0-5'] })
  world.store.rows.push({ ...world.store.rows[0]!, position: (1n << 56n) | 2n })
  world.store.replayed.add((1n << 56n) | 2n)
  await world.letters.append([world.letters.messages.find(({ headers }) => headers!.some(({ value }) => value === 'store-refused'))!])
  expect((await verify({ replaysOf: async () => undefined })).partitions[0]).toMatchObject({ recount: { replayed: 1 }, holds: true })
})

test('a replayed message that is empty or filtered by now has no rows, and is not missing', async () => {
  const { letters, verify } = await everyKind()
  await letters().replay({ ids: ['0-2', '0-5'] })
  const more = { replaysOf: async () => undefined, decoder: decoderFor(['channels.none']) }
  expect((await verify(more)).partitions[0]!.faults['replay missing']).toBeUndefined()
})

test('the letters are those of the writer that the store belongs to', async () => {
  const site = await everyKind()
  const asked: string[] = []
  const { lettersOf, replaysOf } = site.parts
  await site.verify({
    lettersOf: writer => (asked.push(`letters of ${writer}`), lettersOf(writer)),
    replaysOf: writer => (asked.push(`replays of ${writer}`), replaysOf(writer)),
  })
  expect(asked).toEqual(['letters of writer-1', 'replays of writer-1'])
})

test('of a message that was refused and has rows it is said that it has a dead letter', async () => {
  const site = await everyKind()
  for (const index of [0, 7]) site.world.store.rows.push({ ...site.world.store.rows[0]!, position: (1n << 56n) | 5n, index })
  const { first } = (await site.verify()).partitions[0]!
  expect(first).toContainEqual({ kind: 'surplus rows', id: '1-0-5', detail: 'it has 1 rows, and the store 2; it has a dead letter' })
})

/** What is done to the store, or the letters, and what must be found. */
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
  'a dead letter is gone': [site => void site.world.letters.messages.splice(0, 1), { 'missing dead letter': 1, ledger: 1 }, '1-0-2'],
  'the dead letter of a refused message is gone': [
    site =>
      void site.world.letters.messages.splice(
        site.world.letters.messages.findIndex(letter => letter.headers!.some(({ value }) => value === 'store-refused')),
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

test.each(Object.entries(damages))('%s: it does not hold, and it is said where', async (_what, [damage, faults, id]) => {
  const site = await everyKind()
  damage(site)
  const report = await site.verify()
  expect(report.holds).toBe(false)
  expect(report.partitions[0]!.faults).toEqual(faults)
  expect(report.partitions[0]!.first[0]!.id).toBe(id)
})

test('of many faults the first are named, and all counted', async () => {
  const site = await siteWith(Array.from({ length: 100 }, (_, at) => pack(at)))
  site.world.store.rows.length = 0
  const [partition] = (await site.verify()).partitions
  expect(partition!.faults.missing).toBe(100)
  expect(partition!.first.map(({ id }) => id)).toEqual(Array.from({ length: 10 }, (_, at) => `1-0-${at}`))
})

test('what the log deleted after it was stored is not compared, and it is said that the books cover more', async () => {
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

test('what the log deletes while it is read is not compared either', async () => {
  const site = await siteWith(Array.from({ length: 30 }, (_, at) => pack(at)))
  const { reader } = site.parts
  let runs = 0
  const deleting = {
    ...reader,
    async *read(partition: number, from: number, to: number) {
      for await (const run of reader.read(partition, from, to)) {
        yield run
        if (++runs === 2) site.world.log.deleteBelow(20)
      }
    },
  }
  const [partition] = (await site.verify({ reader: deleting })).partitions
  expect(partition).toMatchObject({ recount: { received: 16, stored: 16 }, unchecked: 14, ledger_covers_more: true, holds: true })
})

test.each([4, 8])('an offset without a message (%i of 9) is skipped, and rows there are surplus', async gone => {
  const site = await siteWith(Array.from({ length: 9 }, (_, at) => pack(at)))
  const { reader } = site.parts
  /** Without the message at that offset, as after a compaction. */
  const compacted = {
    ...reader,
    async *read(partition: number, from: number, to: number) {
      for await (const run of reader.read(partition, from, to)) {
        yield {
          ...run,
          cursor() {
            const cursor = run.cursor()
            return { ...cursor, message: cursor.message, next: () => cursor.next() && (cursor.message.offset !== gone || cursor.next()) }
          },
        }
      }
    },
  }
  const [partition] = (await site.verify({ reader: compacted })).partitions
  expect(partition).toMatchObject({ recount: { received: 8, skipped: 1 }, faults: { 'surplus rows': 1, ledger: 3 } })
  expect(partition!.first[0]!.id).toBe(`1-0-${gone}`)
})

test('a message that was taken twice is in the books only, and they hold', async () => {
  const site = await siteWith([pack(1), pack(2)])
  site.books.set('1/0', { ...site.books.get('1/0')!, received: 3, duplicate: 1 })
  expect((await site.verify()).partitions[0]).toMatchObject({ recount: { received: 2 }, ledger_covers_more: false, holds: true })
})

test('where the dead letters have lost their beginning, one that is not there is taken to have been', async () => {
  const { world, verify } = await everyKind()
  world.letters.deleteBelow(2)
  const report = await verify()
  expect(report.letters_lost_below).toEqual({ 0: 2 })
  expect(report.partitions[0]).toMatchObject({ recount: { dead_lettered: expect.any(Number) } })
  expect(report.partitions[0]!.faults['missing dead letter']).toBeUndefined()
})

test('without a topic of dead letters there are none', async () => {
  const site = await siteWith([pack(1)])
  expect((await site.verify({ lettersOf: async () => undefined })).holds).toBe(true)
  const bad = await siteWith([pack(1), text('bad')])
  expect((await bad.verify({ lettersOf: async () => undefined })).partitions[0]!.faults).toEqual({ 'missing dead letter': 1, ledger: 1 })
})

test('a log that the store does not know is nothing to compare with', async () => {
  const site = await siteWith([pack(1)])
  const { reader } = site.parts
  await expect(site.verify({ reader: { ...reader, name: 'others' } })).rejects.toThrow(/knows nothing of the log "others"/)
  await expect(site.verify({ reader: { ...reader, id: 'made-anew' } })).rejects.toThrow(/another one \(id made-anew\)/)
})

test('progress is told up to all that there is', async () => {
  const site = await siteWith(Array.from({ length: 30 }, (_, at) => pack(at)))
  const told: [number, number][] = []
  await site.verify({ onProgress: (done, total) => void told.push([done, total]) })
  expect(told.at(-1)).toEqual([30, 30])
  expect(told.length).toBeGreaterThan(3)
})

function rowAt(site: Site, offset: number): number {
  return site.world.store.rows.findIndex(({ position }) => position === ((1n << 56n) | BigInt(offset)))
}

function remove(site: Site, offset: number): void {
  site.world.store.rows.splice(rowAt(site, offset), 1)
}

function addRow(site: Site, offset: number): void {
  site.world.store.rows.push({ ...site.world.store.rows[0]!, position: (1n << 56n) | BigInt(offset) })
}
