// Serializes access to the single PGlite connection and to the statements of one transaction, and rejects work after the close.

import type { Asking } from './database.ts'

/** Runs the work when its turn comes. Aborting `signal` removes waiting work from the queue immediately and throws its reason. */
export type Queue = <Result>(work: () => Promise<Result>, asking?: Asking) => Promise<Result>

interface Waiting {
  readonly sinceMs: number
  begin(): void
}

/**
 * Runs one piece of work at a time, first come first served. Work of readers waits behind all other work. But if other work leaves
 * them no turn, one reader starts `readerWaitMsMax` after it was queued or after the last reader, whichever is later. So other
 * work waits for at most one running reader, plus one more for every `readerWaitMsMax` that it waits.
 */
export function openQueue(readerWaitMsMax: number): Queue {
  const first: Waiting[] = []
  const readers: Waiting[] = []
  let taken = false
  let readerEndedMs = Number.NEGATIVE_INFINITY

  function next(): void {
    const [reader] = readers
    const overdue = reader !== undefined && performance.now() - Math.max(reader.sinceMs, readerEndedMs) >= readerWaitMsMax
    const chosen = overdue || first.length === 0 ? readers.shift() : first.shift()
    taken = chosen !== undefined
    chosen?.begin()
  }

  function turn(queue: Waiting[], signal: AbortSignal | undefined): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const onAbort = (): void => {
      queue.splice(queue.indexOf(waiting), 1)
      reject(signal!.reason)
    }
    const waiting = {
      sinceMs: performance.now(),
      begin: () => {
        signal?.removeEventListener('abort', onAbort)
        resolve()
      },
    }
    signal?.addEventListener('abort', onAbort, { once: true })
    queue.push(waiting)
    return promise
  }

  return async (work, { signal, priority, onTurn } = {}) => {
    signal?.throwIfAborted()
    if (taken) await turn(priority === 'reader' ? readers : first, signal)
    taken = true
    try {
      onTurn?.()
      return await work()
    } finally {
      if (priority === 'reader') readerEndedMs = performance.now()
      next()
    }
  }
}

export interface Turn {
  <Result>(work: () => Promise<Result>): Promise<Result>
  /** Waits for running work; rejects any later call. */
  end(): Promise<void>
}

/** Runs the statements of a transaction one after another in call order, because they share one connection. */
export function oneAtATime(): Turn {
  let last: Promise<unknown> = Promise.resolve()
  let ended = false
  const turn = <Result>(work: () => Promise<Result>): Promise<Result> => {
    if (ended) return Promise.reject(new Error('the transaction has ended: a statement was not awaited inside its work'))
    const result = last.then(work, work)
    last = result.catch(() => undefined)
    return result
  }
  return Object.assign(turn, {
    end: async () => {
      ended = true
      await last
    },
  })
}

export interface Gate {
  pass<Result>(work: () => Promise<Result>): Promise<Result>
  /** Rejects new work, waits for running work, then runs `finish`; repeated calls run it once. */
  close(finish: () => Promise<void>): Promise<void>
}

/** @param where which database, for the error that late callers get */
export function openGate(where: string): Gate {
  const inside = new Set<Promise<unknown>>()
  let closed: Promise<void> | undefined
  return {
    pass: work => {
      if (closed !== undefined) return Promise.reject(new Error(`${where} was closed by this process and accepts no more requests`))
      const passing = work()
      inside.add(passing)
      const leave = (): void => void inside.delete(passing)
      passing.then(leave, leave)
      return passing
    },
    close: finish => {
      closed ??= Promise.allSettled(inside).then(finish)
      return closed
    },
  }
}
