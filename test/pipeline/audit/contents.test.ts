// Compares the columns of rows with what their messages decode to: a row that was changed in the store is found, and the first ones are explained.

import { expect, test } from 'vitest'
import { pack } from '../writer/numbers.ts'
import { everyKind, rowAt, type Site, siteWith } from './site.ts'

/** Changes the row of a message in the store. */
function change(site: Site, offset: number, more: object, index = 0): void {
  const { rows } = site.world.store
  const at = rows.findIndex(row => row.position === ((1n << 56n) | BigInt(offset)) && row.index === index)
  rows[at] = { ...rows[at]!, ...more }
}

test('a row that was changed is a fault only if contents are compared; the first ones name the columns', async () => {
  const site = await everyKind()
  expect(await site.verify({ contents: true })).toMatchObject({ contents: true, holds: true, partitions: [{ recount: { stored: 3 } }] })
  change(site, 0, { channel: 'evil', value: 2 })
  change(site, 4, { timeUs: 7, sum: 1 }, 1)
  change(site, 4, { index: 9 }, 2)
  expect(await site.verify()).toMatchObject({ contents: false, holds: true })
  const { holds, partitions } = await site.verify({ contents: true })
  expect([holds, partitions[0]!.faults]).toEqual([false, { 'contents differ': 2 }])
  expect(partitions[0]!.first).toEqual([
    { kind: 'contents differ', id: '1-0-0', offset: 0, detail: '1 of its rows differs from what it decodes to, in channel, value' },
    { kind: 'contents differ', id: '1-0-4', offset: 4, detail: '2 of its rows differ from what it decodes to, in time, sum, index' },
  ])
})

test('two messages that have exchanged their rows are found', async () => {
  const site = await siteWith([pack(1), pack(2), pack(2)])
  change(site, 0, { value: 2 })
  change(site, 1, { value: 1 })
  const [partition] = (await site.verify({ contents: true })).partitions
  expect(partition).toMatchObject({ recount: { stored: 3 }, faults: { 'contents differ': 2 } })
})

test('the contents of rows that are missing, doubled or of a message stored in part are not compared as well', async () => {
  const site = await everyKind()
  change(site, 4, { value: 0 }, 0)
  site.world.store.rows.splice(rowAt(site, 4) + 1, 1)
  change(site, 0, { value: 0 })
  site.world.store.rows.push(site.world.store.rows[rowAt(site, 0)]!)
  expect((await site.verify({ contents: true })).partitions[0]!.faults).toEqual({ 'rows missing': 1, doubled: 1 })
})

test('the rows of a replayed message are compared, too', async () => {
  const site = await everyKind()
  site.world.store.replayed.add((1n << 56n) | 4n)
  change(site, 4, { publisher: 'other' })
  expect((await site.verify({ contents: true })).partitions[0]!.first[0]).toMatchObject({ kind: 'contents differ', id: '1-0-4' })
})

test('a difference that is gone when it is looked at again says so', async () => {
  const site = await everyKind()
  const audit = {
    ...site.audit,
    rows: (...of: Parameters<typeof site.audit.rows>) => (change(site, 0, { value: 1 }), site.audit.rows(...of)),
  }
  change(site, 0, { value: 2 })
  const [partition] = (await site.verify({ contents: true, audit })).partitions
  expect(partition!.first[0]!.detail).toMatch(/, or were not while they were compared: compare again$/)
})
