// Who may use a database, and when: work on one connection in turn, statements of one transaction in turn, and nothing once it is closed.

import type { Asking } from './database.ts'

/** Runs the work when its turn comes; `signal` takes work that waits out of the queue at once, and its reason is thrown. */
export type Queue = <Result>(work: () => Promise<Result>, asking?: Asking) => Promise<Result>

interface Waiting {
  readonly sinceMs: number
  begin(): void
}

/**
 * One piece of work at a time, in the order in which it was asked. Work of readers waits behind all other, but when other work leaves
 * them no turn, one of theirs begins `readerWaitMsMax` after it was asked or after the last of theirs, whichever is later. So other
 * work waits for the work of at most one reader that is under way, and for one more for every `readerWaitMsMax` that it waits.
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
  /** Waits for what has begun; whatever comes later is refused. */
  end(): Promise<void>
}

/** A transaction has one connection, so its statements wait for each other in the order in which they were asked. */
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
  /** Refuses newcomers, waits for those inside, then runs `finish`, once however often it is called. */
  close(finish: () => Promise<void>): Promise<void>
}

/** @param where which database, for the error that a late caller gets */
export function openGate(where: string): Gate {
  const inside = new Set<Promise<unknown>>()
  let closed: Promise<void> | undefined
  return {
    pass: work => {
      if (closed !== undefined) return Promise.reject(new Error(`${where} was closed by this process: nothing more can be asked of it`))
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
