// Time slices: work that takes long lets the event loop go on after each slice, so that publishers of the same process wait for one slice and not for all
// of the work.

export interface TimeSlices {
  /** undefined while the slice lasts: go on. Else resolves with the next one, in the order in which it was asked for. */
  next(): Promise<void> | undefined
}

/**
 * Short, since a publisher waits for several turns of the event loop, and each may hold a slice. One step of the work may exceed it: a few hundred records
 * that are given out, a chunk that is read from the log, or a message that is decoded.
 */
const sliceMs = 2

export function openTimeSlices(): TimeSlices {
  const waiting: (() => void)[] = []
  let endMs = 0

  function begin(): void {
    endMs = performance.now() + sliceMs
    waiting.shift()!()
    if (waiting.length > 0) setImmediate(begin)
  }

  return {
    next() {
      if (performance.now() < endMs) return undefined
      return new Promise(resolve => {
        if (waiting.push(resolve) === 1) setImmediate(begin)
      })
    },
  }
}
