// The fair queue: fair between accounts and addresses, and bounded for each.

import { expect, test } from 'vitest'
import { type FairQueue, openFairQueue } from '../../../control-plane/outside/fair-queue.ts'
import { passwordWork } from '../../../control-plane/users/passwords.ts'

/** A queue whose jobs end on demand, and the order in which they began. */
function watch(queue: FairQueue): {
  readonly enter: (account: string, address: string, failures?: number) => Promise<void>
  readonly endAll: () => Promise<void>
  readonly began: readonly string[]
} {
  const began: string[] = []
  const ends: (() => void)[] = []
  const running = new Set<Promise<void>>()
  return {
    began,
    enter(account, address, failures = 0) {
      const work = (): Promise<void> =>
        new Promise(resolve => {
          began.push(`${account}@${address}`)
          ends.push(resolve)
        })
      const run = queue.run({ account, address, failures }, work)
      running.add(run)
      run.then(
        () => running.delete(run),
        () => running.delete(run),
      )
      return run
    },
    async endAll() {
      while (running.size > 0) {
        for (const end of ends.splice(0)) end()
        await new Promise(resolve => setImmediate(resolve))
      }
    },
  }
}
const settled = () => new Promise(resolve => setImmediate(resolve))

test('two jobs run at once, and one of an account', async () => {
  const { enter, endAll, began } = watch(openFairQueue(passwordWork))
  const all = [enter('a', '1'), enter('a', '2'), enter('b', '1'), enter('c', '1')]
  await settled()
  expect(began).toEqual(['a@1', 'b@1'])
  await endAll()
  await Promise.all(all)
  expect(began).toHaveLength(4)
})

test.each<[string, (nth: number) => [string, string]]>([
  ['one address with many accounts', nth => [`account ${nth}`, 'flood']],
  ['many addresses at one account', nth => ['flood', `address ${nth}`]],
])('with %s, another requester is among the first five', async (_name, flooder) => {
  const { enter, endAll, began } = watch(openFairQueue(passwordWork))
  const all = Array.from({ length: 20 }, (_, nth) => enter(...flooder(nth)))
  await settled()
  all.push(enter('somebody', 'else'))
  await endAll()
  await Promise.all(all)
  expect(began.indexOf('somebody@else')).toBeLessThanOrEqual(4)
})

test('two floods and two others take turns', async () => {
  const { enter, endAll, began } = watch(openFairQueue(passwordWork))
  const all = Array.from({ length: 40 }, (_, nth) => enter(`account ${nth}`, nth % 2 === 0 ? 'flood' : 'other flood'))
  await settled()
  all.push(enter('a', '1'), enter('b', '2'))
  await endAll()
  await Promise.all(all)
  expect(Math.max(began.indexOf('a@1'), began.indexOf('b@2'))).toBeLessThanOrEqual(8)
})

test.each<[string, number, string, (nth: number) => [string, string]]>([
  ['an account', 20, 'too_many_requests', nth => ['flood', `address ${nth}`]],
  ['an address', 100, 'too_many_requests', nth => [`account ${nth}`, 'flood']],
  ['all', 200, 'unavailable', nth => [`account ${nth}`, `address ${nth}`]],
])('of %s %i are accepted, and the next must try again; earlier ones of others are served', async (_name, taken, code, flooder) => {
  const { enter, endAll } = watch(openFairQueue(passwordWork))
  const all = Array.from({ length: taken }, (_, nth) => enter(...flooder(nth)))
  await expect(enter(...flooder(taken))).rejects.toMatchObject({ code })
  if (taken < 200) all.push(enter('somebody', 'else'))
  await endAll()
  await Promise.all(all)
  const again = enter(...flooder(0))
  await endAll()
  await again
})

test('two addresses that fill the queue do not keep out a third: their last jobs are dropped', async () => {
  const { enter, endAll, began } = watch(openFairQueue(passwordWork))
  const floods = Array.from({ length: 200 }, (_, nth) => enter(`account ${nth}`, nth % 2 === 0 ? 'flood' : 'other flood'))
  const ends = Promise.allSettled(floods)
  const somebody = enter('somebody', 'else')
  await settled()
  await endAll()
  await somebody
  expect(began.indexOf('somebody@else')).toBeLessThanOrEqual(6)
  const refused = (await ends).filter(end => end.status === 'rejected')
  expect(refused).toMatchObject([{ reason: { code: 'too_many_requests' } }])
})

test.each<[string, (nth: number) => [string, number]]>([
  ['addresses that failed at it', nth => [`address ${nth}`, 1]],
  ['one address at once', () => ['flood', 0]],
])('in a full account the last job of %s is dropped for one of an address without failures, and for no other', async (_name, flooder) => {
  const { enter, endAll, began } = watch(openFairQueue(passwordWork))
  const ends = Promise.allSettled(Array.from({ length: 20 }, (_, nth) => enter('account', ...flooder(nth))))
  const owner = enter('account', 'owner')
  await settled()
  await expect(enter('account', ...flooder(20))).rejects.toMatchObject({ code: 'too_many_requests' })
  await endAll()
  await owner
  expect(began).toContain('account@owner')
  const outcomes = await ends
  expect(outcomes[19]).toMatchObject({ status: 'rejected', reason: { code: 'too_many_requests' } })
  expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(19)
})

test('a failed job frees its turn, and a delayed one does not take a turn', async () => {
  const queue = openFairQueue(passwordWork)
  const failing = (): Promise<never> => Promise.reject(new Error('broken'))
  const delayed = queue.run({ account: 'late', address: '1' }, async () => 'late', 50)
  for (let nth = 0; nth < 3; nth++) await expect(queue.run({ account: 'a', address: '1' }, failing)).rejects.toThrow('broken')
  expect(await queue.run({ account: 'b', address: '1' }, async () => 'b')).toBe('b')
  expect(await delayed).toBe('late')
})
