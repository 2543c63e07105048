// Callers that ask the same at the same time get one answer, and none gets one that is older than its request.

import { setImmediate as nextTurn } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { openSingleFlight } from '../../readers/single-flight.ts'

function counted() {
  const asked: { key: string; signal: AbortSignal; answer: PromiseWithResolvers<string> }[] = []
  const singleFlight = openSingleFlight<string>()
  const ask = (key: string, signal = new AbortController().signal): Promise<string> =>
    singleFlight.ask(
      key,
      sharedSignal => {
        const answer = Promise.withResolvers<string>()
        asked.push({ key, signal: sharedSignal, answer })
        return answer.promise
      },
      signal,
    )
  return { asked, ask }
}

test('a request of several in one turn is sent once, others separately', async () => {
  const { asked, ask } = counted()
  const answers = [ask('a'), ask('b'), ask('a'), ask('a')]
  await nextTurn()
  expect(asked.map(({ key }) => key)).toEqual(['a', 'b'])
  asked[1]!.answer.resolve('of b')
  asked[0]!.answer.resolve('of a')
  expect(await Promise.all(answers)).toEqual(['of a', 'of b', 'of a', 'of a'])
})

test('a request that has started is not joined: its answer may be older than the request', async () => {
  const { asked, ask } = counted()
  const first = ask('a')
  await nextTurn()
  const second = ask('a')
  await nextTurn()
  expect(asked).toHaveLength(2)
  asked[1]!.answer.resolve('new')
  expect(await second).toBe('new')
  asked[0]!.answer.resolve('old')
  expect(await first).toBe('old')
})

test('a caller that leaves stops waiting, and the others get their answer; the work is aborted with the last', async () => {
  const { asked, ask } = counted()
  const leaving = [new AbortController(), new AbortController(), new AbortController()] as const
  const answers = leaving.map(({ signal }) => ask('a', signal).catch((error: unknown) => error))
  await nextTurn()
  leaving[0].abort('first')
  expect(await answers[0]).toBe('first')
  leaving[1].abort('second')
  expect(asked[0]!.signal.aborted).toBe(false)
  leaving[2].abort('third')
  expect(asked[0]!.signal.aborted).toBe(true)
  expect(await answers[2]).toBe('third')
})

test('a single caller that leaves aborts the work', async () => {
  const { asked, ask } = counted()
  const leaving = new AbortController()
  const answer = ask('a', leaving.signal)
  await nextTurn()
  leaving.abort('gone')
  await expect(answer).rejects.toBe('gone')
  expect(asked[0]!.signal.aborted).toBe(true)
})

test('callers that leave before the turn ends leave no work', async () => {
  const { asked, ask } = counted()
  const leaving = new AbortController()
  const answers = [ask('a', leaving.signal), ask('a', leaving.signal)]
  leaving.abort('gone')
  expect(await Promise.allSettled(answers)).toEqual([1, 2].map(() => ({ status: 'rejected', reason: 'gone' })))
  await nextTurn()
  expect(asked.map(({ signal }) => signal.aborted)).toEqual([true])
})

test('each caller gets a failure, and the next turn tries again', async () => {
  const { asked, ask } = counted()
  const answers = [ask('a'), ask('a')]
  await nextTurn()
  asked[0]!.answer.reject(new Error('away'))
  for (const answer of answers) await expect(answer).rejects.toThrow('away')
  const again = ask('a')
  await nextTurn()
  asked[1]!.answer.resolve('there')
  expect(await again).toBe('there')
})
