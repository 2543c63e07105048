// One question that several ask at the same time is answered once: many look at the same page, and ask for it again and again.
//
// What is asked in one turn of the event loop is begun together at its end, so no answer is older than its question, and who asks alone waits for nothing.

import { unlessAborted } from '../config/aborting.ts'

export interface Sharing<Answer> {
  /**
   * @param key everything that the answer depends on, and whoever asks
   * @param work is given a signal that aborts when nobody waits for it any more
   * @throws what `work` throws; the signal's reason, where it aborts first
   */
  ask(key: string, work: (signal: AbortSignal) => Promise<Answer>, signal: AbortSignal): Promise<Answer>
}

interface Asked<Answer> {
  readonly answer: Promise<Answer>
  begin(): void
  /** One more waits for it. */
  join(signal: AbortSignal): void
}

export function openSharing<Answer>(): Sharing<Answer> {
  let turn: Map<string, Asked<Answer>> | undefined

  function begin(): void {
    const questions = turn!
    turn = undefined
    for (const asked of questions.values()) asked.begin()
  }

  return {
    async ask(key, work, signal) {
      signal.throwIfAborted()
      if (turn === undefined) {
        turn = new Map()
        setImmediate(begin)
      }
      let asked = turn.get(key)
      if (asked === undefined) {
        asked = openAsked(work)
        turn.set(key, asked)
      }
      asked.join(signal)
      return await unlessAborted(asked.answer, signal)
    },
  }
}

function openAsked<Answer>(work: (signal: AbortSignal) => Promise<Answer>): Asked<Answer> {
  const { promise, resolve, reject } = Promise.withResolvers<Answer>()
  const nobodyWaits = new AbortController()
  const signals: AbortSignal[] = []
  const onAbort = (): void => {
    if (signals.every(({ aborted }) => aborted)) nobodyWaits.abort()
  }
  return {
    answer: promise,
    begin() {
      // A single one, which is the ordinary case, is given its own.
      work(signals.length === 1 ? signals[0]! : nobodyWaits.signal).then(resolve, reject)
    },
    join(signal) {
      signals.push(signal)
      signal.addEventListener('abort', onAbort, { once: true })
    },
  }
}
