// Time slices: long work lets the event loop run after each slice, so that publishers in the same process wait for one slice and not for all of the
// work.

export interface TimeSlices {
  /** undefined while the slice lasts; otherwise resolves with the next one, in the order of the calls. */
  next(): Promise<void> | undefined
}

/**
 * Short, since a publisher waits for several iterations of the event loop, and each may contain a slice. One step of the work may exceed it: sending
 * a few hundred records, reading a chunk from the log, or decoding a message.
 */
const sliceMsMin = 2
/** Where the rest of an iteration takes long, as with many publishers, followers would otherwise fall behind them. */
const sliceMsMax = 10
const shareOfOthers = 1 / 2

export function openTimeSlices(): TimeSlices {
  const waiting: (() => void)[] = []
  let endMs = 0

  function begin(): void {
    const nowMs = performance.now()
    endMs = nowMs + Math.min(Math.max((nowMs - endMs) * shareOfOthers, sliceMsMin), sliceMsMax)
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
