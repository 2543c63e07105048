// The time in which a request has to be answered, also where the server does not take all of it.

import { SinkError } from '../sink-error.ts'

/**
 * Calls `request` with a signal that aborts with the caller's, or when the time is over.
 *
 * The driver's own time-out closes a socket on which nothing happens, and that is no end for a request of which a part is not sent yet: where
 * the server has stopped reading, the driver waits for ever for a socket that is closed to take the rest.
 *
 * @throws SinkError (transient) when the time is over
 */
export async function withAnswerLimit<Answer>(
  limitMs: number,
  signal: AbortSignal | undefined,
  request: (signal: AbortSignal) => Promise<Answer>,
): Promise<Answer> {
  const silence = new AbortController()
  const timer = setTimeout(() => silence.abort(new SinkError('transient', `MongoDB has not answered for ${limitMs} ms`)), limitMs)
  try {
    return await request(signal === undefined ? silence.signal : AbortSignal.any([signal, silence.signal]))
  } finally {
    clearTimeout(timer)
  }
}
