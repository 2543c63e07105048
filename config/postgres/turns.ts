// Who may use a database, and when: statements of one transaction in turn, and nothing once it is closed.

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
