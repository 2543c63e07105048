// Slots for work of which only so much may be under way: shared between accounts, so that one that has none gets one while another has several, or has had
// its only one for ten seconds.
//
// Slots that are held for long: at the bound an account takes one from the account that has the most, and one that has none from whoever had theirs for
// longest. Work that takes turns: those wait in the order of what their accounts have and lately used; an account that lately used little waits for short
// work at most, and work that made room for it runs again later.

import type { ServerResponse } from 'node:http'
import { HttpError } from '../errors.ts'

export interface FairSlots {
  /**
   * Takes a slot for as long as the caller likes.
   *
   * @param name of the account: a user's id, for a thing its owner's
   * @param onDisplaced called when another account gets the slot: `too_many_requests` if this one has others, and otherwise `unavailable`
   * @returns releases the slot; a second call does nothing
   * @throws HttpError `too_many_requests` for an account with a quarter of all slots; `unavailable` if no account has more than this one, and, where
   *   this one has none, each of the others has got its slot only just now
   */
  take(name: string, onDisplaced: (reason: HttpError) => void): () => void
  /**
   * Takes a slot until the response ends in any way. A displaced response that has begun is cut off; another one gets the reason of the signal.
   *
   * @returns aborts with `signal`, and when another account gets the slot
   * @throws HttpError like `take`
   */
  hold(name: string, response: ServerResponse, signal: AbortSignal): AbortSignal
  /**
   * Runs short work when its turn comes.
   *
   * @param work its signal aborts with `signal`, and when another account gets the slot; then it runs again
   * @throws the signal's reason; HttpError `unavailable` if no slot was free in time; `too_many_requests` for an account with a quarter of what may wait,
   *   and, if too much waits, for the latest of the account with the most; what the work throws
   */
  run<Result>(name: string, signal: AbortSignal, work: (signal: AbortSignal) => Promise<Result>): Promise<Result>
}

/** The number of slots, and what they are for in errors: `live streams`. */
export interface FairSlotsParts {
  readonly max: number
  readonly what: string
  /** How many turns may wait; without it as many as ask, for work that is bounded before. */
  readonly waitingMax?: number
  /** Once a turn has begun, its work goes on when its signal aborts: for work that nothing can stop. */
  readonly finishes?: boolean
}

interface Account {
  readonly name: string
  /** Held and waiting, in the order of arrival. */
  readonly slots: Set<Slot>
  /** Turns that run now. */
  running: number
  /** For how long its turns lately ran, as of `atMs`. */
  usedMs: number
  atMs: number
}

interface Slot {
  readonly account: Account
  readonly isShort: boolean
  readonly displaced: (reason: HttpError) => void
  /** undefined once it is held. */
  admit: (() => void) | undefined
  heldSinceMs: number
  /** When it began to wait, or last looked for a turn to take. */
  lookedAtMs: number
}

/** No account holds more for long. A part of this size is kept: for accounts that hold nothing else, and turns of those that lately used little. */
const share = 1 / 4
/** An account that lately used less has a turn before the others: it takes one from that with the most, if that has used so much more or has several. */
const littleMsMax = 250
/**
 * Used time is forgotten at this speed: so slowly that with up to twenty accounts a slot that of long work is not forgotten before the next turn. If it were,
 * each would count as one that used little, and end the work of another before it is done. With more accounts, turns go by arrival. No more than this
 * counts, so that who exported for long has a turn again within `waitMsMax`, after those who used less.
 */
const forgottenPerMs = 0.05
const usedMsMax = 1_500
/** What a slot counts beside used time. */
const slotMs = 1_000
/** How long work waits before it takes a turn from work that has run for as long: most ends sooner. */
const patienceMs = 250
/** How often those that wait are looked at, all at once: some tens of microseconds for thousands. */
const lookMs = 50
const waitMsMax = 30_000
/** For so long each account keeps one slot, whoever has none. */
const keptMsMin = 10_000
/** With so many accounts those without slots and used time are removed. */
const accountsMax = 1_000

const nothing = (): void => undefined

/** Starts with all slots free. */
export function openFairSlots({ max, what, waitingMax = Number.POSITIVE_INFINITY, finishes = false }: FairSlotsParts): FairSlots {
  const accounts = new Map<string, Account>()
  /** In the order of arrival, each with the time until which it waits. */
  const waiting = new Map<Slot, number>()
  /** Runs while any wait. */
  let looking: NodeJS.Timeout | undefined
  const eachMax = Math.max(1, Math.floor(max * share))
  const keptFrom = max - Math.floor(max * share)
  let held = 0
  let sweepAt = accountsMax

  function accountOf(name: string): Account {
    let account = accounts.get(name)
    if (account === undefined) {
      if (accounts.size >= sweepAt) sweep()
      account = { name, slots: new Set(), running: 0, usedMs: 0, atMs: performance.now() }
      accounts.set(name, account)
    }
    return account
  }

  function sweep(): void {
    for (const account of accounts.values()) if (account.slots.size === 0 && usedMsOf(account) === 0) accounts.delete(account.name)
    sweepAt = Math.max(accountsMax, 2 * accounts.size)
  }

  function usedMsOf(account: Account): number {
    const nowMs = performance.now()
    const usedMs = account.usedMs + (account.running - forgottenPerMs) * (nowMs - account.atMs)
    account.usedMs = Math.min(Math.max(usedMs, 0), usedMsMax)
    account.atMs = nowMs
    return account.usedMs
  }

  function isFreeFor({ account, isShort }: Slot): boolean {
    if (held < keptFrom) return true
    return held < max && (isShort ? usedMsOf(account) < littleMsMax : account.slots.size === 1)
  }

  function enter(slot: Slot): void {
    const { account, admit } = slot
    held++
    usedMsOf(account)
    if (slot.isShort) account.running++
    slot.heldSinceMs = performance.now()
    slot.admit = undefined
    endWait(slot)
    admit?.()
  }

  function leave(slot: Slot): void {
    const { account } = slot
    if (!account.slots.delete(slot)) return
    if (!endWait(slot)) {
      held--
      usedMsOf(account)
      if (slot.isShort) account.running--
    }
    if (account.slots.size === 0 && account.usedMs === 0) accounts.delete(account.name)
    admitNext()
  }

  /** @returns whether it waited */
  function endWait(slot: Slot): boolean {
    if (!waiting.delete(slot)) return false
    if (waiting.size === 0) clearInterval(looking)
    return true
  }

  function loadOf(account: Account): number {
    return account.slots.size * slotMs + usedMsOf(account)
  }

  /** Admits those whose accounts have and used the least, the first of them first. */
  function admitNext(): void {
    while (held < max) {
      let next: Slot | undefined
      let least = Number.POSITIVE_INFINITY
      /** The later ones of an account come after its first. */
      const compared = new Set<Account>()
      for (const slot of waiting.keys()) {
        const { account } = slot
        if (compared.has(account)) continue
        compared.add(account)
        const load = loadOf(account)
        if (load >= least || !isFreeFor(slot)) continue
        next = slot
        least = load
      }
      if (next === undefined) return
      enter(next)
    }
  }

  /** The latest slot of the account with the most; of turns of several such accounts the one that runs for longest. undefined if none has at least this much. */
  function latestOfMost(amountOf: (account: Account) => number, least: number): Slot | undefined {
    let latest: Slot | undefined
    let most = least
    for (const account of accounts.values()) {
      const amount = amountOf(account)
      const last = amount < most ? undefined : [...account.slots].findLast(mayLose)
      if (last === undefined) continue
      if (latest !== undefined && amount === most && last.isShort && last.heldSinceMs > latest.heldSinceMs) continue
      latest = last
      most = amount
    }
    return latest
  }

  function longestHeld(): Slot | undefined {
    let longest: Slot | undefined
    for (const { slots } of accounts.values())
      for (const slot of slots)
        if (heldMsOf(slot) >= keptMsMin && slot.heldSinceMs < (longest?.heldSinceMs ?? Number.POSITIVE_INFINITY)) longest = slot
    return longest
  }

  function heldMsOf({ admit, heldSinceMs }: Slot): number {
    return admit === undefined ? performance.now() - heldSinceMs : 0
  }

  function mayLose(slot: Slot): boolean {
    return slot.admit === undefined && (!slot.isShort || heldMsOf(slot) >= patienceMs)
  }

  /** @returns whether there was a slot */
  function displace(slot: Slot | undefined): boolean {
    if (slot === undefined) return false
    leave(slot)
    const reached = `the limit of ${max} ${what} is reached`
    slot.displaced(
      slot.account.slots.size > 0
        ? new HttpError('too_many_requests', `${reached}, and your account has more of them than others: retry later`)
        : new HttpError('unavailable', `${reached}, and accounts without any wait for one: retry later`),
    )
    return true
  }

  /** Where too much waits, the latest turn of the account with the most makes room, if that has more than this one. */
  function demandPlace({ slots }: Account): void {
    if (slots.size >= waitingMax * share) {
      const detail = `your account has ${slots.size} ${what} or wait, and no account gets more than a quarter of all: wait for some of them`
      throw new HttpError('too_many_requests', detail)
    }
    if (waiting.size < waitingMax) return
    let latest: Slot | undefined
    for (const slot of waiting.keys()) {
      const { size } = slot.account.slots
      if (size > slots.size && size >= (latest?.account.slots.size ?? 0)) latest = slot
    }
    if (!displace(latest)) throw limitReached()
  }

  const limitReached = (): HttpError => new HttpError('unavailable', `the limit of ${max} ${what} is reached: retry later`)

  const fairSlots: FairSlots = {
    take(name, displaced) {
      const account = accountOf(name)
      if (account.slots.size >= eachMax) {
        const detail = `your account has ${eachMax} ${what}, and no account gets more than a quarter of all: end some of them`
        throw new HttpError('too_many_requests', detail)
      }
      const slot: Slot = { account, isShort: false, displaced, admit: undefined, heldSinceMs: 0, lookedAtMs: 0 }
      const hasNone = account.slots.size === 0
      account.slots.add(slot)
      // Not entered yet, so it is none of those that may be displaced.
      slot.admit = nothing
      const isFree = isFreeFor(slot) || displace(latestOfMost(({ slots }) => slots.size, account.slots.size + 1))
      if (!isFree && !(hasNone && displace(longestHeld()))) {
        account.slots.delete(slot)
        throw limitReached()
      }
      enter(slot)
      return () => leave(slot)
    },

    hold(name, response, signal) {
      const over = new AbortController()
      const release = fairSlots.take(name, reason => {
        over.abort(reason)
        if (response.headersSent) response.destroy()
      })
      followAbort(signal, over)
      // A disconnected client has already closed the response.
      if (response.destroyed) release()
      else response.once('close', release)
      return over.signal
    },

    async run(name, signal, work) {
      const deadlineMs = performance.now() + waitMsMax
      for (;;) {
        signal.throwIfAborted()
        const over = new AbortController()
        let isDisplaced = false
        const displaced = (reason: HttpError): void => {
          isDisplaced = slot.admit === undefined
          over.abort(reason)
        }
        const account = accountOf(name)
        const slot: Slot = { account, isShort: true, displaced, admit: undefined, heldSinceMs: 0, lookedAtMs: 0 }
        if (!isFreeFor(slot)) demandPlace(account)
        account.slots.add(slot)
        const unfollow = followAbort(signal, over)
        try {
          if (isFreeFor(slot)) enter(slot)
          else await turnOf(slot, over, deadlineMs)
          if (finishes) unfollow()
          return await work(over.signal)
        } catch (error) {
          if (!isDisplaced) throw error
        } finally {
          unfollow()
          leave(slot)
        }
      }
    },
  }

  function turnOf(slot: Slot, { signal }: AbortController, deadlineMs: number): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const onAbort = (): void => reject(signal.reason)
    signal.addEventListener('abort', onAbort, { once: true })
    slot.admit = resolve
    slot.lookedAtMs = performance.now()
    if (waiting.size === 0) looking = setInterval(look, lookMs)
    waiting.set(slot, deadlineMs)
    return promise.finally(() => signal.removeEventListener('abort', onAbort))
  }

  function look(): void {
    // Used time is forgotten, and with it a kept slot may be free for one that waits.
    admitNext()
    const nowMs = performance.now()
    /** Found no turn to take, so others of theirs need no search. */
    const inVain = new Set<Account>()
    for (const [slot, deadlineMs] of waiting) {
      const { account, lookedAtMs } = slot
      if (nowMs >= deadlineMs) {
        leave(slot)
        slot.displaced(limitReached())
      } else if (nowMs - lookedAtMs >= patienceMs) {
        slot.lookedAtMs = nowMs
        if (!inVain.has(account) && !takeTurn(account)) inVain.add(account)
      }
    }
  }

  /** @returns whether there was one to take */
  function takeTurn(account: Account): boolean {
    const usedMs = usedMsOf(account)
    const loadOfOther = (other: Account): number => (other === account ? 0 : loadOf(other))
    return usedMs < littleMsMax && displace(latestOfMost(loadOfOther, slotMs + usedMs + littleMsMax))
  }

  return fairSlots
}

/** Aborts with the signal, also if it has aborted before. @returns ends that */
function followAbort(signal: AbortSignal, over: AbortController): () => void {
  const onAbort = (): void => over.abort(signal.reason)
  if (signal.aborted) onAbort()
  signal.addEventListener('abort', onAbort, { once: true })
  return () => signal.removeEventListener('abort', onAbort)
}
