// The pending appends: each is settled once, with its positions, with an error, or at its deadline.

import type { LogPosition } from '../../log.ts'

export interface Append {
  /** In message order; the append is complete when none is missing. */
  readonly positions: LogPosition[]
  missing: number
  settled: boolean
  /** Whether a broker may have some of it. */
  isSent: boolean
  /** On the clock of `performance.now`. */
  readonly deadlineMs: number
  readonly resolve: (positions: LogPosition[]) => void
  readonly reject: (error: Error) => void
}

export interface Appends {
  readonly size: number
  /** Appends must be added in deadline order. */
  add(append: Append): void
  /** Records the position of the message at this index; resolves the append if it was the last. */
  stored(append: Append, index: number, position: LogPosition): void
  reject(append: Append, error: Error): void
  /** Rejects appends whose deadline has passed, and returns the deadline of the next; undefined if there is none. */
  expire(nowMs: number, errorOf: (isSent: boolean) => Error): number | undefined
  /** Resolves when no append is pending. */
  drained(): Promise<void>
}

/** @param onNone called when the last one is settled */
export function openAppends(onNone: () => void): Appends {
  const open = new Set<Append>()
  let waiting: (() => void)[] = []

  function settle(append: Append): void {
    append.settled = true
    open.delete(append)
    if (open.size > 0) return
    onNone()
    for (const resolve of waiting) resolve()
    waiting = []
  }

  return {
    get size() {
      return open.size
    },
    add: append => void open.add(append),
    stored(append, index, position) {
      append.positions[index] = position
      append.missing--
      if (append.missing > 0 || append.settled) return
      settle(append)
      append.resolve(append.positions)
    },
    reject(append, error) {
      if (append.settled) return
      settle(append)
      append.reject(error)
    },
    expire(nowMs, errorOf) {
      const errors = new Map<boolean, Error>()
      for (const append of open) {
        if (append.deadlineMs > nowMs) return append.deadlineMs
        const error = errors.get(append.isSent) ?? errorOf(append.isSent)
        errors.set(append.isSent, error)
        settle(append)
        append.reject(error)
      }
      return undefined
    },
    drained: () => (open.size === 0 ? Promise.resolve() : new Promise(resolve => waiting.push(resolve))),
  }
}
