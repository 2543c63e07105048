// What records of sessions mean, in each order that compaction leaves.

import { expect, test } from 'vitest'
import type { KeptSession } from '../../../../pipeline/mqtt/sessions/records.ts'
import { type Applied, openSessionRecords, recordName } from '../../../../pipeline/mqtt/sessions/records.ts'
import { keptSession, someClient } from '../../../conformance/sessions.ts'

const nowMs = 1_000_000
const key = someClient()
const [one, two] = [keptSession(1), keptSession(2)]

interface Written {
  readonly offset: number
  readonly holder?: number
  readonly session: KeptSession | null
}

/** What each record did, and what is kept after all of them. `null` is a tombstone. */
function after(...records: readonly (Written | null)[]): {
  did: Applied[]
  kept: KeptSession | null
  holder: number | undefined
  bytes: number
} {
  const all = openSessionRecords(() => nowMs)
  const did = records.map(record => {
    if (record === null) return all.apply(recordName(key), 0, Buffer.alloc(0))
    const { offset, ...value } = record
    return all.apply(recordName(key), offset, Buffer.from(JSON.stringify({ ...value, untilMs: nowMs + 1 })))
  })
  return { did, kept: all.session(key), holder: all.get(key)?.holder, bytes: all.bytes }
}

const saved: Written = { offset: 1, holder: 0, session: one }
const claim: Written = { offset: 0, session: null }

test.each<[what: string, records: (Written | null)[], did: Applied[], kept: KeptSession | null, holder: number | undefined]>([
  ['a claim takes a session of which nothing is kept', [claim], ['claim'], null, 0],
  ['a save of the holder counts', [claim, saved], ['claim', undefined], one, 0],
  ['a save without its claim counts', [saved], [undefined], one, 0],
  ['a claim keeps what it did not know', [saved, { offset: 2, session: null }], [undefined, 'claim'], one, 2],
  ['a claim without what was before it repeats it', [{ offset: 2, session: one }], ['claim'], one, 2],
  [
    'an earlier holder saves too late',
    [saved, { offset: 2, session: one }, { offset: 3, holder: 0, session: two }],
    [undefined, 'claim', 'overwritten'],
    one,
    2,
  ],
  ['a later holder saves without its claim', [saved, { offset: 3, holder: 2, session: two }], [undefined, undefined], two, 2],
  ['the holder removes it', [saved, { offset: 2, holder: 0, session: null }], [undefined, undefined], null, 0],
  ['a tombstone forgets it', [saved, null], [undefined, 'overwritten'], null, undefined],
  ['its holder saves it after a tombstone', [saved, null, saved], [undefined, 'overwritten', undefined], one, 0],
])('%s', (_, records, did, kept, holder) => {
  expect(after(...records)).toMatchObject({ did, kept, holder })
})

test('the bytes are those of what is kept', () => {
  const [small, large] = [after(saved).bytes, after({ ...saved, session: keptSession(1, { keptSeconds: 1_000_000 }) }).bytes]
  expect(large).toBeGreaterThan(small)
  expect([after(saved, { ...saved, offset: 2 }).bytes, after(saved, null).bytes, after(null).bytes]).toEqual([small, 0, 0])
})

test('what is no record of a session is unreadable, and changes nothing', () => {
  const all = openSessionRecords(() => nowMs)
  const texts = ['{', 'null', '1', '[]', '{"untilMs":1}', '{"untilMs":"1","session":null}']
  expect(texts.map(text => all.apply(recordName(key), 0, Buffer.from(text)))).toEqual(texts.map(() => 'unreadable'))
  expect(['', 'thing', ' client'].map(name => all.apply(name, 0, Buffer.from('{"untilMs":1,"session":null}')))).toEqual(
    Array.from({ length: 3 }, () => 'unreadable'),
  )
  expect(all.bytes).toBe(0)
})
