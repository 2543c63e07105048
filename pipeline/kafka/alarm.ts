// One timer for many instants: it rings at the earliest.

export interface Alarm {
  /** Rings at this instant of `performance.now`, or before. Whoever is woken sets the next. */
  at(instantMs: number): void
  clear(): void
}

export function openAlarm(onRing: () => void): Alarm {
  let timer: NodeJS.Timeout | undefined
  let setMs = Number.POSITIVE_INFINITY

  function clear(): void {
    clearTimeout(timer)
    timer = undefined
    setMs = Number.POSITIVE_INFINITY
  }

  return {
    at(instantMs) {
      if (instantMs >= setMs) return
      clear()
      setMs = instantMs
      const ring = (): void => {
        clear()
        onRing()
      }
      timer = setTimeout(ring, Math.max(1, Math.ceil(instantMs - performance.now())))
    },
    clear,
  }
}
