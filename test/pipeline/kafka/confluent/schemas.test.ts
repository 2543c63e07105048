// Which schemas are cached, and when the registry is asked.

import { setTimeout } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { unknownSchema } from '../../../../pipeline/kafka/confluent/faults.ts'
import type { Decoding } from '../../../../pipeline/kafka/confluent/framed-cursor.ts'
import { openSchemas, patience, type Schemas, type SchemasOptions } from '../../../../pipeline/kafka/confluent/schemas.ts'
import { LogUnavailableError } from '../../../../pipeline/log.ts'
import { ourPlan } from './framed-messages.ts'

const never = new AbortController().signal

/** A registry that has the schemas below `known` from a given time on, and counts requests. Waiting takes no real time. */
function world(options: Partial<SchemasOptions> = {}): {
  schemas: Schemas
  asked: number[]
  state: { away: boolean; known: number; nowMs: number; lagsUntilMs: number }
} {
  const state = { away: false, known: 100, nowMs: 0, lagsUntilMs: 0 }
  const asked: number[] = []
  const schemas = openSchemas({
    async lookUp(id) {
      asked.push(id)
      if (state.away) throw new LogUnavailableError('the registry is away')
      return id < state.known && state.nowMs >= state.lagsUntilMs ? ourPlan : { forNow: unknownSchema(id) }
    },
    clock: () => state.nowMs,
    async wait(waitMs) {
      state.nowMs += waitMs
    },
    ...options,
  })
  return { schemas, asked, state }
}

function ruleOf(decoding: Decoding | undefined): string | undefined {
  return decoding !== undefined && 'rule' in decoding ? decoding.rule : undefined
}

test('a schema is requested once', async () => {
  const { schemas, asked } = world()
  expect(schemas.known([1])).toBeUndefined()
  await schemas.decodings([1, 2], never)
  await schemas.decodings([2, 1], never)
  expect(schemas.known([1, 2])).toEqual(
    new Map([
      [1, ourPlan],
      [2, ourPlan],
    ]),
  )
  expect(asked).toEqual([1, 2])
})

test('a schema that the registry does not have makes a dead letter, and is requested again only after a while', async () => {
  const { schemas, asked, state } = world({ missingMs: 1000 })
  expect(ruleOf((await schemas.decodings([100], never)).get(100))).toBe('schema-unknown')
  state.nowMs += 999
  expect(ruleOf(schemas.known([100])?.get(100))).toBe('schema-unknown')
  state.nowMs += 1
  expect(schemas.known([100])).toBeUndefined()
  state.known = 101
  const askedBefore = asked.length
  expect((await schemas.decodings([100], never)).get(100)).toBe(ourPlan)
  expect(asked).toHaveLength(askedBefore + 1)
})

describe('a registry that lags behind the one where a schema was registered', () => {
  test.each([1, 500, patience.ms - 1])('for %d ms makes no dead letter', async lagsUntilMs => {
    const { schemas, state } = world()
    state.lagsUntilMs = lagsUntilMs
    expect((await schemas.decodings([1], never)).get(1)).toBe(ourPlan)
  })

  test('is retried for the patience, and then believed', async () => {
    const { schemas, asked, state } = world({ wait: async () => void (state.nowMs += patience.ms / 2) })
    expect(ruleOf((await schemas.decodings([100], never)).get(100))).toBe('schema-unknown')
    expect(state.nowMs).toBe(patience.ms)
    expect(asked).toEqual([100, 100, 100])
    expect(schemas.known([100])).toBeDefined()
  })

  test('caches nothing as missing while it is retried', async () => {
    const waited = Promise.withResolvers<void>()
    const waiting = Promise.withResolvers<void>()
    const { schemas, state } = world({
      wait() {
        waiting.resolve()
        return waited.promise
      },
    })
    const first = schemas.decodings([100], never)
    await waiting.promise
    expect(schemas.known([100])).toBeUndefined()
    state.known = 101
    waited.resolve()
    expect((await first).get(100)).toBe(ourPlan)
  })

  test('is retried for the whole patience even after a slow answer', async () => {
    let nowMs = 0
    const askedMs: number[] = []
    const schemas = openSchemas({
      async lookUp(id) {
        if (askedMs.push(nowMs) === 1) nowMs += 10 * patience.ms
        return { forNow: unknownSchema(id) }
      },
      clock: () => nowMs,
      wait: async waitMs => void (nowMs += waitMs),
    })
    await schemas.decodings([100], never)
    expect(askedMs.at(-1)! - 10 * patience.ms).toBeGreaterThanOrEqual(patience.ms)
  })

  test('is waited for once, however many schemas are missing', async () => {
    const { schemas, state } = world()
    await schemas.decodings(
      Array.from({ length: 1000 }, (_, at) => 1000 + at),
      never,
    )
    expect(state.nowMs).toBeGreaterThanOrEqual(patience.ms)
    expect(state.nowMs).toBeLessThan(patience.ms + patience.waitMsMax)
  })

  test('an outage during that time is not an answer', async () => {
    const { schemas, state } = world({ wait: async () => void (state.away = true) })
    await expect(schemas.decodings([100], never)).rejects.toThrow(LogUnavailableError)
    expect(schemas.known([100])).toBeUndefined()
  })

  test('an abort ends the wait', async () => {
    const ending = new AbortController()
    const { schemas } = world({
      wait(_waitMs, signal) {
        const waiting = setTimeout(60_000, undefined, { signal })
        ending.abort()
        return waiting
      },
    })
    await expect(schemas.decodings([100], ending.signal)).rejects.toThrow('aborted')
  })
})

describe('a registry that is away', () => {
  test('is not an answer: cached schemas stay cached, and others are requested again', async () => {
    const { schemas, asked, state } = world()
    await schemas.decodings([1], never)
    state.away = true
    await expect(schemas.decodings([1, 2], never)).rejects.toThrow(LogUnavailableError)
    expect(schemas.known([1])?.get(1)).toBe(ourPlan)
    state.away = false
    expect((await schemas.decodings([2], never)).get(2)).toBe(ourPlan)
    expect(asked).toEqual([1, 2, 2])
  })

  test('makes no dead letters of schemas that were missing before', async () => {
    const { schemas, state } = world({ missingMs: 1000 })
    await schemas.decodings([100], never)
    state.nowMs += 1000
    state.away = true
    await expect(schemas.decodings([100], never)).rejects.toThrow(LogUnavailableError)
  })
})

test('a producer that sends unknown ids fills no memory, and evicts no schema in use', async () => {
  const { schemas, asked } = world({ foundMax: 2, missingMax: 10 })
  await schemas.decodings([1, 2], never)
  const hostile = Array.from({ length: 1000 }, (_, at) => 1000 + at)
  // The chunk that contains them has all of them.
  const decodings = await schemas.decodings(hostile, never)
  expect(decodings.size).toBe(1000)
  expect(schemas.known([1, 2])).toBeDefined()
  expect(hostile.filter(id => schemas.known([id]) !== undefined)).toEqual(hostile.slice(-10))
  const askedBefore = asked.length
  await schemas.decodings([3], never)
  expect(schemas.known([1])).toBeUndefined()
  expect(schemas.known([2, 3])).toBeDefined()
  expect(asked).toHaveLength(askedBefore + 1)
})

test('the registry gets four requests in parallel, and no more after an abort', async () => {
  const ending = new AbortController()
  let underWay = 0
  let most = 0
  let asked = 0
  const schemas = openSchemas({
    async lookUp() {
      most = Math.max(most, ++underWay)
      await new Promise(setImmediate)
      underWay--
      if (++asked === 10) ending.abort(new Error('it is over'))
      return ourPlan
    },
  })
  await expect(
    schemas.decodings(
      Array.from({ length: 100 }, (_, at) => at),
      ending.signal,
    ),
  ).rejects.toThrow('it is over')
  expect(most).toBe(4)
  expect(asked).toBe(12)
})
