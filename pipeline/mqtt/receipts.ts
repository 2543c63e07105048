// The messages with QoS 2 that a client may send again, so that each is stored once (MQTT 5 §4.3.3).
//
// A packet id is saved with the session before its message is appended, and forgotten before the PUBCOMP. After a crash between the two, whether the message is in
// the log is looked up there: its time of receipt and its checksum name it. Until that is known, the client waits for its PUBREC.

import { crc32 } from 'node:zlib'
import { unlessAborted } from '../../config/aborting.ts'
import { endsOf, type Following, type LiveMessage } from '../live/messages.ts'
import type { ConnectionParts } from './dependencies.ts'
import { PacketError, reasons } from './reasons.ts'
import type { KeptReceipt, KeptReceipts } from './sessions/records.ts'
import { SessionsUnavailableError } from './sessions/store.ts'
import type { Timer } from './timer.ts'

/** What names a message in the log. */
type Named = Pick<KeptReceipt, 'channel' | 'createdUs'> & { readonly payload: Uint8Array }

export type Receipts = ReturnType<typeof openReceipts>

interface Receipt extends Omit<KeptReceipt, 'waitedMs'> {
  readonly waitedMs: () => number
  /** Whether it is stored; rejects if that cannot be found out now. */
  readonly stored: () => Promise<boolean>
}

const countMax = 1_000
const retryMs = 100

export function openReceipts({ session: { thing }, parts, persistence }: ConnectionParts) {
  const { live, sessions, startTimer } = parts
  const receipts = new Map<number, Receipt>()
  /** By channel, where the messages begin whose storing is under way. */
  const origins = new Map<string, KeptReceipts['origins'][string]>()
  let opening: Promise<void> = Promise.resolve()
  /** Resolves when the last message that came is being stored, or cannot be: each waits for those before it, whichever is prepared first. */
  let turn: Promise<unknown> = Promise.resolve()
  /** Keeps the log open while ends are asked. */
  let opener: Following | undefined
  const closing = new AbortController()

  /** Of a channel without a message under way: all that follow are behind it. One at a time. */
  function origin(channel: string): Promise<void> {
    const earlier = opening.catch(() => undefined)
    opening = earlier.then(async () => {
      if (origins.has(channel) || live === undefined || persistence() === undefined) return
      const following = await live.follow(channel, undefined)
      opener?.stop()
      opener = following
      if (closing.signal.aborted) following.stop()
      const { log, offsets } = following.streamOffset()
      origins.set(channel, { log, offsets })
    })
    return opening
  }

  /** Does nothing more to the id if it has become that of another message. */
  function settle(receipt: Receipt, isStored: boolean): void {
    const { id, channel } = receipt
    if (receipts.get(id) === receipt) {
      if (isStored) receipts.set(id, { ...receipt, isStored })
      else receipts.delete(id)
    }
    const isUnderWay = [...receipts.values()].some(other => other.channel === channel && !other.isStored)
    if (!isUnderWay) origins.delete(channel)
  }

  /** Whether it is in the log, now or as long as an earlier connection may go on. */
  async function find(
    { channel, createdUs, checksum, waitedMs }: KeptReceipt,
    from: KeptReceipts['origins'][string] | undefined,
  ): Promise<boolean> {
    if (live === undefined || from === undefined) return false
    const following = await live.follow(channel, { ...from, partition: 0, rows: 0 })
    const found = Promise.withResolvers<boolean>()
    let timer: Timer | undefined
    const over = new AbortController()
    const waited = (ms: number): Promise<void> =>
      new Promise(resolve => {
        timer = startTimer(ms, resolve)
      })
    async function passed(): Promise<boolean> {
      await waited(Math.max((sessions?.lateMs ?? 0) - waitedMs, 0))
      // Everything up to an end that is not older than the last append. The log grows meanwhile.
      const ends = await endsOf(live!, channel)
      while (!over.signal.aborted && ends.some((end, partition) => following.streamOffset().offsets[partition]! < end))
        await waited(retryMs)
      return false
    }
    try {
      following.start({
        partsOf: () => 1,
        take({ raw }: LiveMessage, _first, last) {
          if (raw.publisher === thing && raw.createdUs === createdUs && crc32(raw.payload) === checksum) found.resolve(true)
          return last
        },
        space: () => undefined,
        lost: () => undefined,
        end: () => found.reject(new SessionsUnavailableError('the log cannot be read now')),
      })
      return await unlessAborted(Promise.race([found.promise, passed()]), closing.signal)
    } finally {
      over.abort()
      timer?.stop()
      following.stop()
    }
  }

  return {
    /**
     * Stores a message, unless it was sent before and is stored.
     *
     * @param store resolves with whether the message is stored; undefined if that is not known
     * @throws SessionsUnavailableError, LiveUnavailableError if it is not known now: the client sends it again on another connection
     * @throws PacketError for too many messages without a PUBREL
     */
    async once(id: number, { channel, createdUs, payload }: Named, store: () => Promise<boolean | undefined>): Promise<void> {
      const checksum = crc32(payload)
      for (let known = receipts.get(id); known !== undefined; known = receipts.get(id)) {
        if (known.checksum === checksum && (await known.stored())) return
        if (receipts.get(id) === known) receipts.delete(id)
      }
      if (receipts.size >= countMax) {
        throw new PacketError(
          reasons.receiveMaximumExceeded,
          `more than ${countMax} messages of QoS 2 wait for their PUBREL: send it, or connect with a clean session`,
        )
      }
      const done = Promise.withResolvers<boolean>()
      done.promise.catch(() => undefined)
      const receipt = { id, channel, createdUs, checksum, isStored: false, waitedMs: () => 0, stored: () => done.promise }
      receipts.set(id, receipt)
      const prepared = origin(channel).then(() => persistence()?.saveHeld())
      prepared.catch(() => undefined)
      const beginning = turn.then(async () => {
        await prepared
        return { outcome: store() }
      })
      turn = beginning.catch((error: unknown) => {
        settle(receipt, false)
        done.reject(error)
      })
      const isStored = await (await beginning).outcome
      if (isStored === undefined) {
        const error = new SessionsUnavailableError('whether a message with QoS 2 is stored is not known now: connect again')
        done.reject(error)
        throw error
      }
      settle(receipt, isStored)
      done.resolve(isStored)
      persistence()?.saveSoon()
    },
    /** Whether this message was sent before with this id, which has no PUBREL. Another one is new: the client has lost what it knew of the id. */
    has: (id: number, payload: Uint8Array): boolean => receipts.get(id)?.checksum === crc32(payload),
    /** Whether that one is stored. @throws SessionsUnavailableError, LiveUnavailableError */
    isStored: async (id: number): Promise<boolean> => (await receipts.get(id)?.stored()) ?? false,
    /** Before another attempt to store one. @throws SessionsUnavailableError if another connection has taken the session */
    held: async (): Promise<void> => persistence()?.saveHeld(),
    /** Resolves when the id may be used again. @returns false if it was not in use. @throws SessionsUnavailableError */
    async release(id: number): Promise<boolean> {
      const isKnown = receipts.delete(id)
      if (isKnown) await persistence()?.save()
      return isKnown
    },
    /** What an earlier connection may have stored is looked up when the client sends it again. */
    resume({ messages, origins: from }: KeptReceipts): void {
      const resumedMs = performance.now()
      for (const [channel, origin] of Object.entries(from)) origins.set(channel, origin)
      for (const kept of messages) {
        let stored: Promise<boolean> | undefined
        const waitedMs = (): number => kept.waitedMs + Math.floor(performance.now() - resumedMs)
        const receipt: Receipt = { ...kept, waitedMs, stored: () => (stored ??= lookUp()) }
        const lookUp = async (): Promise<boolean> => {
          const isStored = kept.isStored || (await find(kept, from[kept.channel]))
          settle(receipt, isStored)
          return isStored
        }
        receipts.set(kept.id, receipt)
      }
    },
    state: (): KeptReceipts => ({
      messages: [...receipts.values()].map(({ stored: _stored, waitedMs, ...kept }) => ({ ...kept, waitedMs: waitedMs() })),
      origins: Object.fromEntries(origins),
    }),
    close(): void {
      closing.abort(new SessionsUnavailableError('the connection has ended'))
      opener?.stop()
    },
  }
}
