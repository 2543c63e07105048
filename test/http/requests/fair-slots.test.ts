// Slots that are shared fairly between accounts: to hold, and for work that takes turns.

import { EventEmitter, once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, onTestFinished, test, vi } from 'vitest'
import type { HttpError } from '../../../http/errors.ts'
import { type FairSlots, openFairSlots } from '../../../http/requests/fair-slots.ts'

const open = (max: number): FairSlots => openFairSlots({ max, what: 'seats' })
const untilAborted = (signal: AbortSignal): Promise<never> =>
  new Promise((_resolve, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason as Error))
  })
const never = new AbortController().signal
const names = (count: number): string[] => Array.from({ length: count }, (_, nth) => `greedy ${nth}`)

/** Takes slots for accounts, and notes who lost one, and why. */
function watch(slots: FairSlots) {
  const lost: string[] = []
  const codes: string[] = []
  const take = (name: string) =>
    slots.take(name, ({ code }) => {
      lost.push(name)
      codes.push(code)
    })
  return { lost, codes, take }
}

const refusal = (work: () => unknown): HttpError | undefined => {
  try {
    work()
    return undefined
  } catch (error) {
    return error as HttpError
  }
}

test('an account gets a quarter of all slots, and one that is released is free again', () => {
  const { take } = watch(open(8))
  const release = take('a')
  take('a')
  expect(refusal(() => take('a'))).toMatchObject({ code: 'too_many_requests', message: expect.stringMatching(/^your account has 2 seats/) })
  release()
  release()
  take('a')
  expect(refusal(() => take('a'))).toMatchObject({ code: 'too_many_requests' })
})

test('a quarter of all is kept for accounts that hold none', () => {
  const { take, lost } = watch(open(16))
  for (const name of ['a', 'b', 'c', 'a', 'b', 'c', 'a', 'b', 'c', 'a', 'b', 'c']) take(name)
  expect(refusal(() => take('d'))).toBeUndefined()
  // Not the second of one that has fewer than others: another one loses its latest.
  take('d')
  expect(lost).toEqual(['c'])
})

test('with 50 greedy accounts one that holds none gets a slot, also beyond those that are kept', () => {
  const { take, lost, codes } = watch(open(100))
  for (let turn = 0; turn < 16; turn++) for (const name of names(50)) refusal(() => take(name))
  for (let nth = 0; nth < 25; nth++) take(`honest ${nth}`)
  expect(lost).toEqual([])
  for (const name of ['late', 'later']) take(name)
  expect(lost).toEqual(['greedy 24', 'greedy 23'])
  expect(codes).toEqual(['too_many_requests', 'too_many_requests'])
})

test('beside 50 greedy accounts one keeps its only slot for as long as others have several', async () => {
  const clock = holdClock()
  const { take, lost } = watch(open(64))
  take('honest')
  for (const name of names(50)) for (let turn = 0; turn < 16; turn++) refusal(() => take(name))
  await clock.pass(20_000)
  for (let nth = 0; nth < 10; nth++) take(`late ${nth}`)
  expect(lost.length).toBeGreaterThan(10)
  expect(lost).not.toContain('honest')
})

test('where all accounts have one, each keeps it for a while, and then one that has none gets that of the longest', async () => {
  const clock = holdClock()
  const { take, lost, codes } = watch(open(8))
  for (const name of names(8)) {
    take(name)
    await clock.pass(1)
  }
  expect(refusal(() => take('late'))).toMatchObject({ code: 'unavailable', message: expect.stringMatching(/limit of 8 seats/) })
  expect(refusal(() => take('greedy 7'))).toMatchObject({ code: 'unavailable' })
  expect(lost).toEqual([])
  await clock.pass(10_000)
  for (const name of ['late', 'later']) take(name)
  expect(lost).toEqual(['greedy 0', 'greedy 1'])
  expect(codes).toEqual(['unavailable', 'unavailable'])
  // Who has one already waits for others to end.
  expect(refusal(() => take('greedy 7'))).toMatchObject({ code: 'unavailable' })
  // More accounts than there are slots do not change that.
  for (const name of names(60)) refusal(() => take(name))
  await clock.pass(10_000)
  expect(refusal(() => take('last'))).toBeUndefined()
})

test('a response holds its slot until it ends, and is cut off when another account needs it', async () => {
  const slots = open(8)
  const responses: ServerResponse[] = []
  const signals: AbortSignal[] = []
  const server = createServer((request, response) => {
    responses.push(response)
    signals.push(slots.hold(request.url!, response, never))
    response.write('begun')
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => void server.close())
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const ask = async (name: string): Promise<Response> => fetch(`${url}/${name}`)
  const answers = []
  for (const name of ['a', 'a', 'b', 'c', 'd', 'e', 'f', 'g']) answers.push(await ask(name))
  responses[2]!.end()
  expect(await answers[2]!.text()).toBe('begun')
  await ask('h')
  expect(signals.map(({ aborted }) => aborted)).toEqual([false, false, false, false, false, false, false, false, false])
  await ask('i')
  await expect(answers[1]!.text()).rejects.toThrow()
  expect(signals[1]!.reason).toMatchObject({ code: 'too_many_requests' })
  for (const response of responses) response.destroy()
})

test('a client that left before its response could begin keeps no slot, and its work is aborted', () => {
  const slots = open(4)
  const response = Object.assign(new EventEmitter(), { destroyed: true }) as unknown as ServerResponse
  const left = AbortSignal.abort(new Error('left'))
  for (let turn = 0; turn < 5; turn++) expect(slots.hold('a', response, left).reason).toMatchObject({ message: 'left' })
})

/** The clock moves by hand. */
function holdClock(): { pass(ms: number): Promise<unknown> } {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'setTimeout', 'clearTimeout', 'performance'] })
  onTestFinished(() => void vi.useRealTimers())
  return { pass: ms => vi.advanceTimersByTimeAsync(ms) }
}

/** Work that ends on demand, the order in which it began, and which made room. */
function openWork(slots: FairSlots) {
  const began: string[] = []
  const lost: string[] = []
  const ends: (() => void)[] = []
  return {
    began,
    lost,
    run: (name: string): Promise<void> =>
      slots.run(name, never, signal => {
        began.push(name)
        signal.addEventListener('abort', () => void lost.push(name))
        return Promise.race([untilAborted(signal), new Promise<void>(resolve => void ends.push(resolve))])
      }),
    endAll: async () => {
      for (let end = ends.shift(); end !== undefined; end = ends.shift()) {
        end()
        await new Promise(setImmediate)
      }
    },
  }
}

/** Each account asks so often at once for work that never ends, and again whenever it is refused. */
function askForEver(slots: FairSlots, accounts: readonly string[], each: number) {
  const leaving = new AbortController()
  const statuses = new Set<unknown>()
  const ask = async (name: string): Promise<void> => {
    while (!leaving.signal.aborted)
      await slots.run(name, leaving.signal, untilAborted).catch((error: HttpError) => void statuses.add(error.status))
  }
  const asking = Promise.all(accounts.flatMap(name => Array.from({ length: each }, () => ask(name))))
  return {
    /** @returns the status of each refusal */
    async leave(): Promise<Set<unknown>> {
      leaving.abort({ status: 'left' })
      await asking
      return statuses
    },
  }
}

test('work waits for its turn: that of the account with the fewest first, and then of the one that used less', async () => {
  const clock = holdClock()
  const { run, began, endAll } = openWork(open(1))
  const used = run('used')
  await clock.pass(2_000)
  const all = ['a', 'a', 'used', 'b'].map(run)
  await endAll()
  await Promise.all([used, ...all])
  expect(began).toEqual(['used', 'b', 'a', 'a', 'used'])
})

test('a quarter of the turns is kept for accounts that lately used little', async () => {
  const clock = holdClock()
  const { run, began, endAll } = openWork(open(4))
  const used = ['a', 'b'].map(run)
  await clock.pass(300)
  await endAll()
  const all = ['a', 'a', 'b', 'b'].map(run)
  expect(began.slice(2)).toEqual(['a', 'a', 'b'])
  all.push(run('c'))
  expect(began.slice(5)).toEqual(['c'])
  await endAll()
  await Promise.all([...used, ...all])
})

test.each([
  ['a queue of endless work', 10, 4, 2_000],
  ['a single piece of endless work', 10, 1, 2_000],
  ['a single piece of endless work', 4, 1, 8_000],
])('with 50 accounts that have %s each, work of another one runs within 500 ms on %i slots', async (_what, max, each, afterMs) => {
  const clock = holdClock()
  const slots = open(max)
  const greedy = askForEver(slots, names(50), each)
  // Until each had a turn all accounts are the same.
  await clock.pass(afterMs)
  let answered = 0
  for (let turn = 0; turn < 10; turn++) {
    const honest = slots.run('honest', never, async () => void answered++)
    await clock.pass(500)
    expect(answered).toBe(turn + 1)
    await honest
  }
  expect(await greedy.leave()).toEqual(new Set(['left']))
})

test('beside accounts with endless work an export beyond what counts as used comes to its end, and pages run within 500 ms', async () => {
  const clock = holdClock()
  const slots = open(2)
  const greedy = askForEver(slots, names(20), 1)
  await clock.pass(6_000)
  let chunks = 0
  const chunk = (): Promise<void> => new Promise(resolve => setTimeout(resolve, 200))
  const exporting = (async () => {
    for (; chunks < 8; chunks++) await slots.run('exporter', never, chunk)
  })()
  let answered = 0
  for (let turn = 0; turn < 60; turn++) {
    const page = slots.run('reader', never, async () => void answered++)
    await clock.pass(500)
    expect(answered).toBe(turn + 1)
    await page
  }
  expect(chunks).toBe(8)
  await exporting
  await greedy.leave()
})

test('work makes room after it ran for a while, not for that of an account which lately used as much, and runs again', async () => {
  const clock = holdClock()
  const { run, began, endAll } = openWork(open(1))
  const before = run('b')
  await clock.pass(5_000)
  await endAll()
  const long = run('a')
  const waiting = run('b')
  await clock.pass(5_000)
  const late = run('c')
  expect(began).toEqual(['b', 'a'])
  await clock.pass(250)
  expect(began).toEqual(['b', 'a', 'c'])
  await endAll()
  await Promise.all([before, long, waiting, late])
  expect(began.toSorted()).toEqual(['a', 'a', 'b', 'b', 'c'])
})

test('one timer looks at all that wait, and none when nothing waits', async () => {
  const clock = holdClock()
  const { run, endAll } = openWork(open(1))
  const leaving = new AbortController()
  const slots = open(1)
  const running = slots.run('a', leaving.signal, untilAborted).catch(() => undefined)
  const left = slots.run('b', leaving.signal, untilAborted).catch(() => undefined)
  const all = names(40).map(run)
  expect(vi.getTimerCount()).toBe(2)
  leaving.abort(new Error('left'))
  await Promise.all([running, left])
  expect(vi.getTimerCount()).toBe(1)
  await clock.pass(100)
  await endAll()
  await Promise.all(all)
  expect(vi.getTimerCount()).toBe(0)
})

test('work that waits takes no turn before it has waited for a while, also when other work has waited for longer', async () => {
  const clock = holdClock()
  const { run, began, endAll } = openWork(open(1))
  const before = run('b')
  await clock.pass(5_000)
  await endAll()
  const all = [run('a'), run('b')]
  await clock.pass(5_120)
  all.push(run('c'))
  await clock.pass(240)
  expect(began).toEqual(['b', 'a'])
  await clock.pass(60)
  expect(began).toEqual(['b', 'a', 'c'])
  await endAll()
  await Promise.all([before, ...all])
})

test('work makes no room for that of its own account', async () => {
  const clock = holdClock()
  const { run, began, lost, endAll } = openWork(open(1))
  const all = ['a', 'a'].map(run)
  await clock.pass(250)
  expect([began, lost]).toEqual([['a'], []])
  await endAll()
  await Promise.all(all)
})

test('of accounts that used as much, work that runs for longest makes room', async () => {
  const clock = holdClock()
  const { run, began, lost, endAll } = openWork(open(2))
  const all = [run('a')]
  await clock.pass(1_000)
  all.push(run('b'))
  await clock.pass(5_000)
  all.push(run('c'))
  await clock.pass(250)
  expect([began, lost]).toEqual([['a', 'b', 'c'], ['a']])
  await endAll()
  await Promise.all(all)
})

test('work of one account goes on beside others that each ask for little', async () => {
  const clock = holdClock()
  const slots = open(4)
  const leaving = new AbortController()
  const page = (): Promise<void> => new Promise(resolve => setTimeout(resolve, 20))
  const others = names(40).map(async name => {
    while (!leaving.signal.aborted) await slots.run(name, leaving.signal, page).catch(() => undefined)
  })
  let chunks = 0
  const exporting = (async () => {
    for (let chunk = 0; chunk < 30; chunk++) await slots.run('exporter', never, () => page().then(() => void chunks++))
  })()
  await clock.pass(30_000)
  expect(chunks).toBe(30)
  leaving.abort(new Error('left'))
  await clock.pass(1_000)
  await Promise.all([exporting, ...others])
})

test('of more accounts than have a turn in half a minute the last are refused', async () => {
  const clock = holdClock()
  const slots = open(1)
  const leaving = new AbortController()
  const ends = names(150).map(name => slots.run(name, leaving.signal, untilAborted).catch((error: unknown) => error))
  await clock.pass(31_000)
  leaving.abort({ code: 'left' })
  const codes = new Set((await Promise.all(ends)).map(error => (error as HttpError).code as string))
  expect(codes).toEqual(new Set(['unavailable', 'left']))
})

test('work whose caller leaves gives back its place in the queue, and its slot', async () => {
  const slots = open(1)
  const leaving = [new AbortController(), new AbortController()]
  const running = slots.run('a', leaving[0]!.signal, untilAborted)
  const waiting = slots.run('b', leaving[1]!.signal, untilAborted)
  const last = slots.run('c', never, async () => 'c')
  leaving[1]!.abort(new Error('b left'))
  await expect(waiting).rejects.toThrow('b left')
  leaving[0]!.abort(new Error('a left'))
  await expect(running).rejects.toThrow('a left')
  expect(await last).toBe('c')
})

test('where too much work waits, the latest of the account with the most makes room, and no account has more than a quarter', async () => {
  const slots = openFairSlots({ max: 1, what: 'seats', waitingMax: 8 })
  const leaving = new AbortController()
  const ask = (name: string): Promise<string> =>
    slots.run(name, leaving.signal, untilAborted).catch(({ code }: { code?: string }) => `${name} ${code}`)
  const asked = ['x', 'a', 'a', 'b', 'b', 'c', 'c', 'd', 'd'].map(ask)
  expect([await ask('a'), await ask('b')]).toEqual(['a too_many_requests', 'b too_many_requests'])
  const late = ask('e')
  expect(await asked.at(-1)).toBe('d too_many_requests')
  // It has as many as others now.
  expect(await Promise.race([...asked.slice(0, -1), late, Promise.resolve('wait')])).toBe('wait')
  leaving.abort({ code: 'left' })
  expect(await Promise.all([...asked, late])).toEqual([
    'x left',
    ...['a', 'a', 'b', 'b', 'c', 'c', 'd'].map(name => `${name} left`),
    'd too_many_requests',
    'e left',
  ])
})
