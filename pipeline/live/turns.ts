// Turns of those who read behind the tail: so many at a time, the others in the order in which they came, and none for long.

export interface Turns {
  /** Resolves when it is this one's turn. */
  take(): Promise<Turn>
}

export interface Turn {
  /** It was long enough, and somebody waits. */
  isOver(): boolean
  end(): void
}

const turnMsMax = 250

/** @param atOnce how many turns there are at the same time */
export function openTurns(atOnce: number): Turns {
  const waiting: ((turn: Turn) => void)[] = []
  let free = atOnce

  function begin(): Turn {
    const beganMs = performance.now()
    let ended = false
    return {
      isOver: () => waiting.length > 0 && performance.now() - beganMs >= turnMsMax,
      end() {
        if (ended) return
        ended = true
        const next = waiting.shift()
        if (next === undefined) free++
        else next(begin())
      },
    }
  }

  return {
    take() {
      if (free > 0) {
        free--
        return Promise.resolve(begin())
      }
      return new Promise(resolve => void waiting.push(resolve))
    },
  }
}
