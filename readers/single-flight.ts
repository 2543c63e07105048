// Single flight: equal requests at the same time share one query, because many clients often poll the same page.
//
// Requests of one event-loop turn start together at its end, so an answer is never older than its request, and a single request is not delayed.

import { unlessAborted } from '../config/aborting.ts'

/** Shares answers between equal requests. */
export interface SingleFlight<Answer> {
  /**
   * @param key everything that the answer depends on, including the caller
   * @param work gets a signal that aborts when every caller has disconnected
   * @throws errors of `work`; the signal's reason, if it aborts first
   */
  ask(key: string, work: (signal: AbortSignal) => Promise<Answer>, signal: AbortSignal): Promise<Answer>
}

interface Flight<Answer> {
  readonly answer: Promise<Answer>
  start(): void
  join(signal: AbortSignal): void
}

/** Starts without running requests. */
export function openSingleFlight<Answer>(): SingleFlight<Answer> {
  /** Requests of the current turn. */
  let flights: Map<string, Flight<Answer>> | undefined

  function startAll(): void {
    const waiting = flights!
    flights = undefined
    for (const flight of waiting.values()) flight.start()
  }

  return {
    async ask(key, work, signal) {
      signal.throwIfAborted()
      if (flights === undefined) {
        flights = new Map()
        setImmediate(startAll)
      }
      let flight = flights.get(key)
      if (flight === undefined) {
        flight = openFlight(work)
        flights.set(key, flight)
      }
      flight.join(signal)
      return await unlessAborted(flight.answer, signal)
    },
  }
}

function openFlight<Answer>(work: (signal: AbortSignal) => Promise<Answer>): Flight<Answer> {
  const { promise, resolve, reject } = Promise.withResolvers<Answer>()
  const allGone = new AbortController()
  const signals: AbortSignal[] = []
  const onAbort = (): void => {
    if (signals.every(({ aborted }) => aborted)) allGone.abort()
  }
  return {
    answer: promise,
    start() {
      // With a single caller, the usual case, its own signal is used.
      work(signals.length === 1 ? signals[0]! : allGone.signal).then(resolve, reject)
    },
    join(signal) {
      signals.push(signal)
      signal.addEventListener('abort', onAbort, { once: true })
    },
  }
}
