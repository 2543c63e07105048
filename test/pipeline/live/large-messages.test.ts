// Messages of many records to many followers: their cost, and who waits meanwhile.

import { expect, test, vi } from 'vitest'
import { openFakeTopic } from './fake-topic.ts'
import { decoder, disposable, keep, openLive } from './follower.ts'

test('a message is read and decoded once, however many followers take it and however little at a time', async () => {
  const topic = openFakeTopic(1)
  const decode = vi.fn<typeof decoder.transformer.decode>((...of) => decoder.transformer.decode(...of))
  await using live = disposable(openLive(topic, { transformer: { decode } }))
  const all = await Promise.all(Array.from({ length: 20 }, (_, nth) => keep(live, 'mine', undefined, () => nth + 1)))
  const names = Array.from({ length: 100 }, (_, at) => `r${at}`)
  await topic.append(0, 'mine', names)
  await Promise.all(all.map(kept => kept.until(100)))
  expect(all.map(kept => kept.names)).toEqual(all.map(() => names))
  expect(decode).toHaveBeenCalledTimes(1)
  expect(topic.read.messages).toBe(1)
})

test('for a follower without room nothing is read or decoded; with room it continues in the message that others got', async () => {
  const topic = openFakeTopic(1)
  const decode = vi.fn<typeof decoder.transformer.decode>((...of) => decoder.transformer.decode(...of))
  await using live = disposable(openLive(topic, { transformer: { decode } }))
  let space = 0
  const paused = await keep(live, 'mine', undefined, () => space)
  const quick = await keep(live, 'mine')
  const names = Array.from({ length: 2_000 }, (_, at) => `r${at}`)
  await topic.append(0, 'mine', names)
  await quick.until(2_000)
  await topic.append(0, 'mine', ['last'])
  await quick.until(2_001)
  expect([paused.names.length, decode.mock.calls.length, topic.read.messages]).toEqual([0, 2, 2])
  space = 700
  await paused.until(2_001)
  expect(paused.names).toEqual([...names, 'last'])
  expect([decode.mock.calls.length, topic.read.messages]).toEqual([2, 2])
})

test('while a large message is sent to many followers, the event loop runs after every few hundred records', async () => {
  const topic = openFakeTopic(1)
  await using live = disposable(openLive(topic))
  const steps: number[] = []
  let turns = 0
  const whole: Promise<void>[] = []
  for (let nth = 0; nth < 20; nth++) {
    const following = await live.follow('mine', undefined)
    const taken = Promise.withResolvers<void>()
    whole.push(taken.promise)
    following.start({
      partsOf: ({ batch }) => batch.rowCount,
      take(message, first, end) {
        steps.push(end - first)
        // As long as printing them takes.
        for (const beganMs = performance.now(); performance.now() - beganMs < 1; );
        if (end === message.batch.rowCount) taken.resolve()
        return end
      },
      space: () => undefined,
      lost: () => undefined,
      end: () => undefined,
    })
  }
  let counting = true
  const count = (): void => {
    turns++
    if (counting) setImmediate(count)
  }
  count()
  await topic.append(
    0,
    'mine',
    Array.from({ length: 5_000 }, (_, at) => `r${at}`),
  )
  await Promise.all(whole)
  counting = false
  expect(Math.max(...steps)).toBeLessThanOrEqual(500)
  expect(steps.reduce((sum, records) => sum + records, 0)).toBe(20 * 5_000)
  // Two steps fill a slice: a third, begun within it, is the most between two turns.
  expect(turns).toBeGreaterThanOrEqual(steps.length / 3)
})

test('messages that arrive while a large one is sent reach all followers, in order', async () => {
  const topic = openFakeTopic(2)
  await using live = disposable(openLive(topic))
  const all = await Promise.all(Array.from({ length: 10 }, (_, nth) => keep(live, 'mine', undefined, () => 100 * (nth + 1))))
  const names = Array.from({ length: 3_000 }, (_, at) => `r${at}`)
  await topic.append(0, 'mine', names)
  for (let nth = 0; nth < 20; nth++) await topic.append(nth % 2, 'mine', [`s${nth}`])
  await Promise.all(all.map(kept => kept.until(3_020)))
  const others = Array.from({ length: 10 }, (_, nth) => [`s${2 * nth}`, `s${2 * nth + 1}`])
  for (const kept of all) {
    expect(kept.names.filter(name => name.startsWith('r'))).toEqual(names)
    expect([0, 1].map(parity => kept.names.filter(name => name.startsWith('s') && Number(name.slice(1)) % 2 === parity))).toEqual([
      others.map(pair => pair[0]),
      others.map(pair => pair[1]),
    ])
  }
})
