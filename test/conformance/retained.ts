// The contract of every RetainedStore.

import { randomUUID } from 'node:crypto'
import { describe, expect, test, vi } from 'vitest'
import { LogUnavailableError } from '../../pipeline/log.ts'
import type { RetainedMessage } from '../../pipeline/mqtt/retained/records.ts'
import type { RetainedStore } from '../../pipeline/mqtt/retained/store.ts'
import { openReopening } from './reopening.ts'

/** A store that can be closed and opened again. */
export interface RetainedUnderTest {
  /** Opens what is kept, of two topics in a channel at most. Several at once are instances that share it; where only one can be open it is the same store. */
  readonly open: () => RetainedStore
  /** The store cannot be reached from now on, until `mend`; absent if that cannot be done to it. */
  readonly break?: () => void
  readonly mend?: () => Promise<void>
}

/** In a channel of its own, unless `own` says one. */
export function retainedMessage(offset: number, own: Partial<RetainedMessage> = {}): RetainedMessage {
  return {
    channel: randomUUID(),
    subtopic: 'a.b',
    publisher: 'thing',
    contentType: 'application/json',
    qos: 1,
    payload: Uint8Array.from([0, 10, 255, 10]),
    log: 'abc',
    partition: 3,
    offset,
    ...own,
  }
}

/** @param start called once for each test @param isBreakable whether it has `break` */
export function retainedConformance(name: string, start: () => RetainedUnderTest, isBreakable = false): void {
  const under = () => openReopening(start())

  describe(`${name} fulfils the contract of a store of retained messages`, () => {
    test.each<Partial<RetainedMessage>>([
      {},
      { subtopic: '', contentType: '', qos: 0, boundedOwner: 'owner' },
      { subtopic: '温度.\u{1F321}', publisher: '', payload: new Uint8Array(64 * 1024), partition: 0, offset: 2 ** 43 },
    ])('what was kept is there unchanged, also for who opens it again: %#', async own => {
      const { store, reopen } = await under()
      const message = retainedMessage(7, own)
      expect(store.get(message)).toBeUndefined()
      await store.keep(message)
      for (const one of [store, await reopen()]) {
        expect(one.get(message)).toEqual(message)
        expect([...one.messagesOf(message.channel)]).toEqual([message])
        expect([...one.messagesOf(randomUUID())]).toEqual([])
        expect([...one.channels()]).toContain(message.channel)
      }
    })

    test.each<[what: string, earlier: Partial<RetainedMessage>, later: Partial<RetainedMessage>]>([
      ['later in the log', { offset: 1 }, { offset: 2 }],
      ['kept once more', { offset: 1 }, { offset: 1, qos: 0 }],
      ['of another partition', { offset: 2 }, { offset: 1, partition: 4 }],
      ['of another log', { offset: 2 }, { offset: 1, log: 'abd' }],
    ])('a message that is %s takes the place of the one before', async (_, earlier, later) => {
      const { store, reopen } = await under()
      const first = retainedMessage(0, earlier)
      const second = { ...first, ...later }
      await store.keep(first)
      await store.keep(second)
      expect(store.get(first)).toEqual(second)
      expect((await reopen()).get(first)).toEqual(second)
    })

    test('of several that are kept at once the last in the log counts, whoever keeps it', async () => {
      const { store, open, reopen } = await under()
      const other = open()
      const { channel } = retainedMessage(0)
      const offsets = [3, 9, 1, 0, 8, 2, 7, 6, 5, 4]
      await Promise.all(offsets.map((offset, at) => (at % 2 === 0 ? store : other).keep(retainedMessage(offset, { channel }))))
      await store.keep(retainedMessage(5, { channel }))
      if (other !== store) await other.close()
      expect((await reopen()).get({ channel, subtopic: 'a.b' })).toMatchObject({ offset: 9 })
    })

    test('what one instance keeps or clears, another has', async () => {
      const { store, open } = await under()
      const other = open()
      const message = retainedMessage(1)
      await store.keep(message)
      await other.ready()
      expect(other.get(message)).toEqual(message)
      await other.clear(message)
      await store.ready()
      expect(store.get(message)).toBeUndefined()
      expect([...store.channels()]).not.toContain(message.channel)
      if (other !== store) await other.close()
    })

    test('a topic that is cleared has none, and may get one again, whatever its offset', async () => {
      const { store, reopen } = await under()
      const message = retainedMessage(1)
      const beside = retainedMessage(1, { channel: message.channel, subtopic: '' })
      await store.clear(message)
      await store.keep(message)
      await store.keep(beside)
      await store.clear(message)
      for (const one of [store, await reopen()]) expect([...one.messagesOf(message.channel)]).toEqual([beside])
      const again = await reopen()
      await again.keep({ ...message, offset: 0 })
      expect((await reopen()).get(message)).toEqual({ ...message, offset: 0 })
    })

    test('keeping and clearing take effect in the order of the calls', async () => {
      const { store, reopen } = await under()
      const [one, other] = [retainedMessage(1), retainedMessage(1)]
      await Promise.all([store.keep(one), store.keep(other)])
      await Promise.all([store.clear(one), store.keep({ ...one, offset: 2 }), store.keep({ ...other, offset: 2 }), store.clear(other)])
      const again = await reopen()
      expect([again.get(one)?.offset, again.get(other)]).toEqual([2, undefined])
    })

    test('a channel has no more topics than are allowed, and each may be kept again', async () => {
      const { store } = await under()
      const message = retainedMessage(1)
      const [second, third] = [retainedMessage(1, { ...message, subtopic: 'b' }), retainedMessage(1, { ...message, subtopic: 'c' })]
      for (const one of [message, second]) {
        store.check(one, 1)
        await store.keep(one)
      }
      expect(() => store.check(third, 1)).toThrow('the channel has 2 topics with a retained message, see mqtt.retained_max')
      store.check(second, 64 * 1024)
      expect(() => store.check(second, 64 * 1024 + 1)).toThrow('a retained message has at most 65536 bytes')
      store.check(retainedMessage(1), 1)
      await store.clear(message)
      store.check(third, 1)
    })

    test('a close waits for what is being kept, and then it is unavailable', async () => {
      const { store, reopen } = await under()
      const messages = Array.from({ length: 20 }, (_, at) => retainedMessage(at))
      const keeping = Promise.allSettled(messages.map(message => store.keep(message)))
      const again = await reopen()
      for (const [at, { status }] of (await keeping).entries()) if (status === 'fulfilled') expect(again.get(messages[at]!)).toBeDefined()
      await again.keep(retainedMessage(1))
      await again.close()
      await expect(again.keep(retainedMessage(1))).rejects.toBeInstanceOf(LogUnavailableError)
    })

    if (isBreakable) {
      test('while it is away everything is unavailable, and afterwards it is right again', { timeout: 60_000 }, async () => {
        const { store, ...made } = await under()
        const [kept, cleared] = [retainedMessage(1), retainedMessage(1)]
        await Promise.all([store.keep(kept), store.keep(cleared)])
        made.break!()
        const refused = [store.keep({ ...kept, offset: 2 }), store.clear(cleared), store.ready()]
        for (const { status, reason } of (await Promise.allSettled(refused)) as PromiseRejectedResult[])
          expect([status, reason]).toEqual(['rejected', expect.any(LogUnavailableError)])
        await made.mend!()
        await vi.waitFor(() => Promise.all([store.keep({ ...kept, offset: 3 }), store.clear(cleared)]), { timeout: 30_000, interval: 100 })
        const again = await made.reopen()
        expect([again.get(kept)?.offset, again.get(cleared)]).toEqual([3, undefined])
      })
    }
  })
}
