// The appends that nobody has answered yet: each is settled once, by its positions, by a refusal, or at its deadline.

import type { LogPosition } from '../log.ts'

export interface Append {
  /** By the messages' order; complete when none is missing. */
  readonly positions: LogPosition[]
  missing: number
  settled: boolean
  /** On the clock of `performance.now`. */
  readonly deadlineMs: number
  readonly resolve: (positions: LogPosition[]) => void
  readonly reject: (error: Error) => void
}

export interface Appends {
  readonly size: number
  /** They come in the order of their deadlines. */
  add(append: Append): void
  /** Notes where the message at this index lies, and resolves the append when it was the last. */
  place(append: Append, index: number, position: LogPosition): void
  reject(append: Append, error: Error): void
  /** Rejects those whose deadline has passed, and returns the deadline of the next; undefined where there is none. */
  expire(nowMs: number, errorOf: () => Error): number | undefined
  /** Resolves when there is none. */
  drained(): Promise<void>
}

/** @param onNone told when the last one is settled */
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
    place(append, index, position) {
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
      let error: Error | undefined
      for (const append of open) {
        if (append.deadlineMs > nowMs) return append.deadlineMs
        error ??= errorOf()
        settle(append)
        append.reject(error)
      }
      return undefined
    },
    drained: () => (open.size === 0 ? Promise.resolve() : new Promise(resolve => waiting.push(resolve))),
  }
}
