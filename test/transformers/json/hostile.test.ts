// The most expensive JSON documents take work in proportion to their size: counted by the engine, block by block, and not timed.
// benchmarks/transformers/hostile.ts measures the time.

import { describe, expect, test } from 'vitest'
import { DecodeError } from '../../../transformers/decode-error.ts'
import { openJsonDocuments } from '../../../transformers/json/documents.ts'
import { timeFields } from '../../fuzz/inputs/documents.ts'
import { worst } from '../../fuzz/worst.ts'
import { countWork } from '../../work-counter.ts'
import { outcomeOf } from './rows.ts'

const [small, large] = [2 ** 16, 2 ** 18]

const transformer = openJsonDocuments({ timeFields })
/** Counts the blocks of the transformer. */
const workDone = countWork(url => /\/transformers\/(json\/[a-z/-]+|decode-error|excerpt)\.ts/.test(url))

/** The work of decoding one payload, and its outcome. */
async function workOf(payload: Uint8Array): Promise<{ work: number; outcome: string }> {
  // Fills the cache of a zone's history, which costs time only once.
  outcomeOf(payload, transformer)
  await workDone()
  const outcome = outcomeOf(payload, transformer)
  return { work: await workDone(), outcome: outcome instanceof DecodeError ? outcome.rule : 'taken' }
}

describe('work is in proportion to the size', () => {
  const payloads = worst.filter(({ target }) => target === 'json')
  test.each(payloads.map(({ name, outcome, make }) => [name, outcome, make] as const))('%s', async (_name, outcome, make) => {
    const less = await workOf(make(small))
    const more = await workOf(make(large))
    expect([less.outcome, more.outcome]).toEqual([outcome, outcome])
    expect(less.work, 'it is counted').toBeGreaterThan(10)
    expect(more.work).toBeLessThan((large / small) * 1.25 * less.work + 1000)
    expect(more.work).toBeLessThan(40 * large)
  })
})
