// The contract of every SessionStore.

import { randomUUID } from 'node:crypto'
import { describe, expect, test, vi } from 'vitest'
import type { KeptSession, SessionKey } from '../../pipeline/mqtt/sessions/records.ts'
import { type HeldSession, type SessionStore, SessionsUnavailableError } from '../../pipeline/mqtt/sessions/store.ts'
import { openReopening } from './reopening.ts'

/** A store of sessions that can be closed and opened again, and whose clock can be moved. */
export interface SessionsUnderTest {
  /** Opens what is kept. Several at once are instances that share the sessions; where only one can be open it is the same store. */
  readonly open: () => SessionStore
  readonly pass: (ms: number) => void
  /** The store cannot be reached from now on, until `mend`; absent if that cannot be done to it. */
  readonly break?: () => void
  readonly mend?: () => Promise<void>
}

const untold = (): void => expect.unreachable('told that another took the session')

export function keptSession(at: number, fields: Partial<KeptSession> = {}): KeptSession {
  return {
    subscriptions: [
      { filter: 'channels/1/messages/#', qos: 1, isNoLocal: true, isRetainAsPublished: true, identifier: 7 },
      { filter: 'channels/+/messages/温度/+', qos: 0, isNoLocal: false, isRetainAsPublished: false },
    ],
    positions: {
      one: { log: 'abc', acknowledged: [at, 2 ** 40], taken: [at, 2 ** 40], isEnd: true },
      two: { log: 'abc', acknowledged: [0, at], taken: [0, at + 1], isEnd: false },
    },
    inFlight: [
      { id: 1, qos: 1, at: { channel: 'two', partition: 1, offset: at } },
      { id: 65_535, qos: 2 },
    ],
    receipts: {
      messages: [{ id: 3, channel: 'one', createdUs: 2 ** 50, checksum: 2 ** 32 - 1, isStored: false, waitedMs: 7 }],
      origins: { one: { log: 'abc', offsets: [at, 2 ** 40] } },
    },
    keptSeconds: 60,
    ...fields,
  }
}

export function someClient(clientId = 'a client'): SessionKey {
  return { thing: randomUUID(), clientId }
}

/** @param start called once for each test @param isBreakable whether it has `break` */
export function sessionConformance(name: string, start: () => SessionsUnderTest, isBreakable = false): void {
  const under = () => openReopening(start())

  /** What is kept now, without holding it. */
  async function keptIn(store: SessionStore, key: SessionKey): Promise<KeptSession | undefined> {
    const held = await store.take(key, untold)
    held.release()
    return held.kept
  }

  describe(`${name} fulfils the contract of a session store`, () => {
    test('nothing is kept of a session that was never saved', async () => {
      const { store, reopen } = await under()
      const key = someClient()
      expect(await keptIn(store, key)).toBeUndefined()
      expect(await keptIn(await reopen(), key)).toBeUndefined()
      expect((await reopen()).count(key.thing)).toBe(0)
    })

    test('what was saved is kept unchanged, also for who opens the store again', async () => {
      const { store, reopen } = await under()
      const key = someClient()
      const held = await store.take(key, untold)
      await held.save(keptSession(1))
      held.release()
      expect(await keptIn(store, key)).toEqual(keptSession(1))
      expect(await keptIn(await reopen(), key)).toEqual(keptSession(1))
    })

    test('of several saves the last counts, also of those while one is under way', async () => {
      const { store, reopen } = await under()
      const key = someClient()
      const held = await store.take(key, untold)
      const saves = [held.save(keptSession(0))]
      await new Promise(resolve => setImmediate(resolve))
      for (let at = 1; at < 20; at++) saves.push(held.save(keptSession(at)))
      await Promise.all(saves)
      held.release()
      expect(await keptIn(await reopen(), key)).toEqual(keptSession(19))
    })

    test('a save before a release is kept, and none after it', async () => {
      const { store, reopen } = await under()
      const key = someClient()
      const held = await store.take(key, untold)
      const saving = held.save(keptSession(1))
      held.release()
      held.release()
      await Promise.all([saving, held.save(keptSession(2)), held.remove()])
      expect(await keptIn(await reopen(), key)).toEqual(keptSession(1))
    })

    test('what is saved when another takes the session is what the other gets, or is ignored', async () => {
      const { store, reopen } = await under()
      for (let round = 0; round < 20; round++) {
        const key = someClient()
        const first = await store.take(key, () => undefined)
        const saving = first.save(keptSession(1)).then(() => first.save(keptSession(2)))
        const second = await store.take(key, untold)
        await saving
        second.release()
        expect([keptSession(1), keptSession(2)]).toContainEqual(second.kept)
        expect(await keptIn(round === 19 ? await reopen() : store, key)).toEqual(second.kept)
      }
    })

    test('who took a session last holds it: an earlier holder is notified once, and what it does is ignored', async () => {
      const { store, open, reopen } = await under()
      const other = open()
      const key = someClient()
      const told = vi.fn<() => void>()
      const first = await store.take(key, told)
      await first.save(keptSession(1))
      const second = await other.take(key, untold)
      expect(second.kept).toEqual(keptSession(1))
      await second.save(keptSession(2))
      await Promise.all([first.save(keptSession(3)), first.remove()])
      second.release()
      const third = await other.take(key, untold)
      expect(third.kept).toEqual(keptSession(2))
      await vi.waitFor(() => expect(told).toHaveBeenCalledOnce(), { timeout: 5_000 })
      await first.save(keptSession(4))
      first.release()
      third.release()
      expect(told).toHaveBeenCalledOnce()
      if (other !== store) await other.close()
      expect(await keptIn(await reopen(), key)).toEqual(keptSession(2))
    })

    test('of those who take a session at once one holds it, and the others are notified', async () => {
      const { store, open } = await under()
      const other = open()
      const key = someClient()
      const told: number[] = []
      const helds = await Promise.all(Array.from({ length: 10 }, (_, at) => (at % 2 === 0 ? store : other).take(key, () => told.push(at))))
      await vi.waitFor(() => expect(told).toHaveLength(9), { timeout: 5_000 })
      await Promise.all(helds.map((held, at) => held.save(keptSession(at))))
      const holder = Array.from(helds.keys()).find(at => !told.includes(at))!
      helds[holder]!.release()
      expect(await keptIn(store, key)).toEqual(keptSession(holder))
      if (other !== store) await other.close()
    })

    test('a session that was released is taken without notifying anyone', async () => {
      const { store } = await under()
      const key = someClient()
      const first = await store.take(key, untold)
      await first.save(keptSession(1))
      first.release()
      const second = await store.take(key, untold)
      expect(second.kept).toEqual(keptSession(1))
      second.release()
    })

    test('a session that its holder removes is gone, and may be saved again', async () => {
      const { store, reopen } = await under()
      const key = someClient()
      const held = await store.take(key, untold)
      await held.save(keptSession(1))
      await held.remove()
      await vi.waitFor(() => expect(store.count(key.thing)).toBe(0), { timeout: 5_000 })
      expect(await keptIn(await reopen(), key)).toBeUndefined()
      const again = await (await reopen()).take(key, untold)
      await Promise.all([again.save(keptSession(2)), again.remove(), again.save(keptSession(3))])
      again.release()
      expect(await keptIn(await reopen(), key)).toEqual(keptSession(3))
    })

    test('a session that is discarded is gone, and its holder is notified', async () => {
      const { store, open, reopen } = await under()
      const other = open()
      const [key, unheld, none] = [someClient(), someClient(), someClient()]
      const told = vi.fn<() => void>()
      const held = await store.take(key, told)
      await held.save(keptSession(1))
      const released = await store.take(unheld, untold)
      await released.save(keptSession(2))
      released.release()
      await store.discard(unheld)
      await other.discard(key)
      await store.discard(none)
      await vi.waitFor(() => expect(told).toHaveBeenCalledOnce(), { timeout: 5_000 })
      await held.save(keptSession(3))
      if (other !== store) await other.close()
      const again = await reopen()
      for (const gone of [key, unheld, none]) expect(await keptIn(again, gone)).toBeUndefined()
    })

    test('who holds a session that was not saved yet is notified when it is discarded', async () => {
      const { store } = await under()
      const key = someClient()
      const told = vi.fn<() => void>()
      const held = await store.take(key, told)
      await store.discard(key)
      expect(told).toHaveBeenCalledOnce()
      await held.save(keptSession(1))
      expect(await keptIn(store, key)).toBeUndefined()
    })

    test('a session expires as long after it was last saved as it says', async () => {
      const { store, pass, reopen } = await under()
      const key = someClient()
      const held = await store.take(key, untold)
      await held.save(keptSession(1))
      pass(59_000)
      await held.save(keptSession(2, { keptSeconds: 120 }))
      held.release()
      pass(119_999)
      expect(await keptIn(await reopen(), key)).toEqual(keptSession(2, { keptSeconds: 120 }))
      pass(1)
      expect(await keptIn(await reopen(), key)).toBeUndefined()
    })

    test('the sessions of a thing are counted, without those that expired', async () => {
      const { store, pass } = await under()
      const { thing } = someClient()
      const save = async (key: SessionKey, keptSeconds: number): Promise<void> => {
        const held = await store.take(key, untold)
        await held.save(keptSession(0, { keptSeconds }))
        held.release()
      }
      for (let at = 0; at < 3; at++) await save({ thing, clientId: `client ${at}` }, 60)
      await save({ thing, clientId: 'client 2' }, 100)
      await save(someClient(), 60)
      await vi.waitFor(() => expect(store.count(thing)).toBe(3), { timeout: 5_000 })
      pass(60_000)
      await vi.waitFor(() => expect(store.count(thing)).toBe(1), { timeout: 5_000 })
    })

    test('a client id is one of its thing, and any text', async () => {
      const { store, reopen } = await under()
      const [thing, other] = [randomUUID(), randomUUID()]
      const clientIds = ['', ' ', 'a', 'a b', ' a', 'A', '温度 \u{1F321}', `${other} a`, '"\\', 'é', 'e\u0301', 'x'.repeat(256)]
      const keys = [thing, other].flatMap(thing => clientIds.map(clientId => ({ thing, clientId })))
      const helds = await Promise.all(keys.map(key => store.take(key, untold)))
      await Promise.all(helds.map((held, at) => held.save(keptSession(at))))
      for (const held of helds) held.release()
      const again = await reopen()
      expect(await Promise.all(keys.map(key => keptIn(again, key)))).toEqual(keys.map((_, at) => keptSession(at)))
    })

    test('a session may have 100 filters, and positions in 1,000 partitions', async () => {
      const { store, reopen } = await under()
      const key = someClient()
      const offsets = Array.from({ length: 1000 }, (_, at) => 2 ** 43 + at)
      const large = keptSession(0, {
        subscriptions: Array.from({ length: 100 }, (_, at) => ({
          filter: `channels/${at}/${'x/'.repeat(100)}#`,
          qos: 1,
          isNoLocal: false,
          isRetainAsPublished: false,
        })),
        positions: {
          one: { log: 'abc', acknowledged: offsets, taken: offsets, isEnd: true },
          two: { log: 'abc', acknowledged: offsets, taken: offsets, isEnd: true },
        },
      })
      const held = await store.take(key, untold)
      await held.save(large)
      held.release()
      expect(await keptIn(await reopen(), key)).toEqual(large)
    })

    test('the sessions of a thing have 256 KiB at most, and those of another do not count', async () => {
      const { store, reopen } = await under()
      const { thing } = someClient()
      const helds = await Promise.all(['a', 'b'].map(clientId => store.take({ thing, clientId }, untold)))
      const other = await store.take(someClient(), untold)
      const large = (count: number): KeptSession =>
        keptSession(1, {
          positions: { one: { log: 'abc', acknowledged: Array.from({ length: count }, () => 1000), taken: [], isEnd: true } },
        })
      await helds[0]!.save(large(30_000))
      expect(await store.has({ thing, clientId: 'a' })).toBe(true)
      const saving = helds[1]!.save(large(30_000))
      await expect(saving).rejects.toBeInstanceOf(SessionsUnavailableError)
      await expect(saving).rejects.toThrow(/^the sessions of a thing have 262144 bytes at most: subscribe to fewer channels/)
      await other.save(large(30_000))
      await helds[1]!.save(keptSession(2))
      await helds[0]!.save(large(29_000))
      helds[0]!.release()
      expect(await keptIn(await reopen(), { thing, clientId: 'a' })).toEqual(large(29_000))
    })

    test('whether something is kept can be asked without taking it, also of what another saved', async () => {
      const { store, open, pass } = await under()
      const other = open()
      const key = someClient()
      const held = await store.take(key, untold)
      expect(await other.has(key)).toBe(false)
      await held.save(keptSession(1))
      expect(await other.has(key)).toBe(true)
      pass(60_000)
      expect(await store.has(key)).toBe(false)
      if (other !== store) await other.close()
    })

    test('a session of which nothing is kept can be refused, and then nothing is taken', async () => {
      const { store, open, pass } = await under()
      const other = open()
      const key = someClient()
      const full = (): never => {
        throw new Error('no more sessions')
      }
      const held = await store.take(key, untold)
      await expect(other.take(key, untold, full)).rejects.toThrow('no more sessions')
      await held.save(keptSession(1))
      held.release()
      const taken = await other.take(key, untold, full)
      expect(taken.kept).toEqual(keptSession(1))
      pass(60_000)
      await expect(store.take(key, untold, full)).rejects.toThrow('no more sessions')
      if (other !== store) await other.close()
    })

    test('a close waits for what is being saved', async () => {
      const { store, reopen } = await under()
      const keys = Array.from({ length: 20 }, () => someClient())
      const helds = await Promise.all(keys.map(key => store.take(key, untold)))
      const saves = helds.flatMap((held, at) => [held.save(keptSession(at)), held.save(keptSession(at + 1))])
      const again = await reopen()
      await Promise.all(saves)
      expect(await Promise.all(keys.map(key => keptIn(again, key)))).toEqual(keys.map((_, at) => keptSession(at + 1)))
    })

    test('a closed store is unavailable', async () => {
      const { store } = await under()
      const key = someClient()
      const held = await store.take(key, untold)
      await held.save(keptSession(1))
      await store.close()
      await expect(store.take(key, untold)).rejects.toBeInstanceOf(SessionsUnavailableError)
      await expect(held.save(keptSession(2))).rejects.toBeInstanceOf(SessionsUnavailableError)
    })

    if (isBreakable) {
      test('while it is away everything is unavailable, and afterwards it is right again', { timeout: 60_000 }, async () => {
        const { store, ...made } = await under()
        const [key, other] = [someClient(), someClient()]
        const held = await store.take(key, untold)
        await held.save(keptSession(1))
        expect((await store.take(other, untold)).kept).toBeUndefined()
        made.break!()
        const refused = [store.take(key, untold), store.take(someClient(), untold), held.save(keptSession(2)), store.discard(other)]
        for (const { status, reason } of (await Promise.allSettled(refused)) as PromiseRejectedResult[])
          expect([status, reason]).toEqual(['rejected', expect.any(SessionsUnavailableError)])
        await made.mend!()
        let taken: HeldSession | undefined
        await vi.waitFor(
          async () => {
            await held.save(keptSession(3))
            taken = await store.take(other, untold)
          },
          { timeout: 30_000, interval: 100 },
        )
        await taken!.save(keptSession(4))
        taken!.release()
        held.release()
        const again = await made.reopen()
        expect(await keptIn(again, key)).toEqual(keptSession(3))
        expect(await keptIn(again, other)).toEqual(keptSession(4))
      })
    }
  })
}
