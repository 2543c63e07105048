// How many requests are under way: never more than allowed, fewer when answers take long, and none after a fault or an abort.

import { setTimeout as wait } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { Pace, sendAll } from '../../../sinks/cassandra/in-flight.ts'

const never = new AbortController().signal
const timedOut = (): Error => Object.assign(new Error('late'), { name: 'OperationTimedOutError' })

function answers(pace: Pace, count: number, tookMs: number): void {
  for (let at = 0; at < count; at++) pace.answered(tookMs)
}

test('it grows to its most while answers come in good time, and shrinks to a few when they do not', () => {
  const pace = new Pace(256)
  answers(pace, 5_000, 5)
  expect(pace.limit).toBe(256)
  answers(pace, 1_500, 500)
  expect(pace.limit).toBe(4)
  answers(pace, 20_000, 5)
  expect(pace.limit).toBe(256)
})

test('it stays where answers take a little longer', () => {
  const pace = new Pace(256)
  answers(pace, 100, 20)
  answers(pace, 300, 100)
  const { limit } = pace
  answers(pace, 400, 100)
  expect(pace.limit).toBe(limit)
})

test('a cluster that is far away is not taken for a slow one', () => {
  const pace = new Pace(256)
  answers(pace, 5_000, 180)
  expect(pace.limit).toBe(256)
})

test('an overload halves it, once for all that are under way', () => {
  const pace = new Pace(64)
  for (let at = 0; at < 20; at++) pace.overloaded()
  expect(pace.limit).toBe(32)
  answers(pace, 40, 5)
  pace.overloaded()
  expect(pace.limit).toBeLessThan(20)
})

test('all requests are sent, each once, never more at a time than the pace allows', async () => {
  const pace = new Pace(10)
  const sent: number[] = []
  let underWay = 0
  let most = 0
  const send = async (at: number) => {
    most = Math.max(most, ++underWay)
    await wait(1)
    sent.push(at)
    underWay--
  }
  await sendAll(200, send, pace, never)
  expect(sent.toSorted((one, other) => one - other)).toEqual(Array.from({ length: 200 }, (_, at) => at))
  expect(most).toBe(10)
  await sendAll(0, send, pace, never)
})

test('what is under way becomes less when the pace goes down in the middle', async () => {
  const pace = new Pace(32)
  let underWay = 0
  let most = 0
  const send = async (at: number) => {
    underWay++
    if (at >= 200) most = Math.max(most, underWay)
    if (at === 100) pace.limit = 2
    await wait(1)
    underWay--
    // As slow answers do; a good one makes it one more.
    if (at >= 100) pace.limit = 2
  }
  await sendAll(300, send, pace, never)
  expect(most).toBeLessThan(5)
})

test('after a fault nothing is begun, and it waits for what is under way', async () => {
  const pace = new Pace(4)
  let begun = 0
  let settled = 0
  const send = async (at: number) => {
    begun++
    await wait(at === 1 ? 1 : 20)
    settled++
    if (at === 1) throw timedOut()
  }
  await expect(sendAll(100, send, pace, never)).rejects.toThrow('late')
  expect([begun, settled]).toEqual([4, 4])
  expect(pace.limit).toBe(4)
})

test('an abort ends it at once, and nothing is begun any more', async () => {
  const controller = new AbortController()
  const gate = Promise.withResolvers<void>()
  let begun = 0
  const sending = sendAll(
    100,
    () => {
      begun++
      return gate.promise
    },
    new Pace(4),
    controller.signal,
  )
  controller.abort(new Error('revoked'))
  await expect(sending).rejects.toThrow('revoked')
  gate.resolve()
  await wait(5)
  expect(begun).toBe(4)
  await expect(sendAll(1, () => Promise.resolve(begun++), new Pace(4), controller.signal)).rejects.toThrow('revoked')
  expect(begun).toBe(4)
})
