// Follows the control plane's changes over HTTP, and knows up to what time it has received all of them.

import { Check } from 'typebox/schema'
import { pause } from '../../config/aborting.ts'
import type { OutageReport } from '../../config/outage.ts'
import type { AccessChange } from '../client.ts'
import { changesPath, type Line, lineBytesMax, lineSchema, unansweredMsMax } from '../internal/wire.ts'
import { ControlPlaneRefusalError, type ControlRequests } from './requests.ts'

export interface FollowedChanges {
  /** Waits for the current attempt to open the stream; resolves immediately while it is open. @throws the reason why it is not */
  attempt(): Promise<void>
  /** Why no changes arrive; undefined while they do, and before the first attempt has ended. */
  failure(): Error | undefined
  /** The time up to which every change has arrived, by `performance.now()`; `-Infinity` before the first line. */
  readonly heardMs: () => number
  close(): Promise<void>
}

/** Reconnects after this time, doubled at each failure up to `reconnectMsMax`, with jitter so that processes do not reconnect in step. */
const reconnectMsMin = 100
const reconnectMsMax = 1_000

/** Follows until `close`; a stream that breaks is opened again, and begins with the change `unheard`. */
export function followChanges(
  requests: ControlRequests,
  onChange: (change: AccessChange) => void,
  outage: OutageReport,
  streamMsMax = unansweredMsMax,
): FollowedChanges {
  const closing = new AbortController()
  let heardMs = -Infinity
  let whole = false
  let failure: Error | undefined
  let attempt = newAttempt()

  function onLine(line: Line): void {
    if (!whole) {
      // Changes that were made while the stream was broken are not sent again.
      onChange({ kind: 'unheard' })
      outage.recovered()
      whole = true
      failure = undefined
      attempt.resolve()
    }
    if (line.type === 'change') onChange(line.change)
    heardMs = performance.now()
  }

  function onBroken(error: unknown, waitMs: number): void {
    failure = error instanceof Error ? error : new Error(String(error))
    // Before the first line, the start itself logs what it waits for.
    if (heardMs !== -Infinity) {
      const meanwhile = failure instanceof ControlPlaneRefusalError ? 'not ready' : 'cached grants are used for a few seconds at most'
      outage.failed(failure, { waitMs, meanwhile })
    }
    whole = false
    attempt.reject(failure)
    attempt = newAttempt()
  }

  async function keepFollowing(): Promise<void> {
    let waitMs = reconnectMsMin
    while (!closing.signal.aborted) {
      const lines = openLines(requests, closing.signal, streamMsMax)
      try {
        for await (const line of lines) onLine(line)
      } catch (error) {
        if (closing.signal.aborted) return
        waitMs = whole ? reconnectMsMin : Math.min(waitMs * 2, reconnectMsMax)
        onBroken(error, waitMs)
      }
      await pause(waitMs * (0.5 + Math.random() / 2), closing.signal)
    }
  }

  const done = keepFollowing()
  return {
    attempt: () => attempt.promise,
    failure: () => failure,
    heardMs: () => heardMs,
    async close() {
      closing.abort()
      await done
    },
  }
}

function newAttempt(): PromiseWithResolvers<void> {
  const attempt = Promise.withResolvers<void>()
  // Once a process has started, no caller waits for the attempt.
  attempt.promise.catch(() => undefined)
  return attempt
}

/**
 * The lines of one stream, checked for gaps. Never ends by itself.
 *
 * @throws Error when the stream breaks, sends nothing for `streamMsMax`, or skips a number; AccessUnavailableError when it cannot be opened
 */
async function* openLines(requests: ControlRequests, closing: AbortSignal, streamMsMax: number): AsyncGenerator<Line> {
  const unanswered = new AbortController()
  const watch = setTimeout(() => unanswered.abort(new Error(`${requests.name} sent nothing for ${streamMsMax / 1000} s`)), streamMsMax)
  try {
    const body = await requests.follow(changesPath, AbortSignal.any([closing, unanswered.signal]))
    let sequence: number | undefined
    let rest = ''
    for await (const chunk of body.setEncoding('utf8')) {
      watch.refresh()
      const texts = (rest + (chunk as string)).split('\n')
      rest = texts.pop()!
      if (rest.length > lineBytesMax) throw new Error(`${requests.name} sent a line longer than ${lineBytesMax} bytes`)
      for (const text of texts) {
        const line = parseLine(text, requests.name)
        const expected = sequence === undefined ? line.sequence : sequence + (line.type === 'change' ? 1 : 0)
        if (line.sequence !== expected || (sequence === undefined && line.type !== 'beat'))
          throw new Error(`${requests.name} left changes out of its stream`)
        sequence = line.sequence
        yield line
      }
    }
    throw new Error(`${requests.name} ended the stream`)
  } finally {
    clearTimeout(watch)
  }
}

function parseLine(text: string, name: string): Line {
  let line: unknown
  try {
    line = JSON.parse(text)
  } catch (cause) {
    throw new Error(`${name} sent a line that is not JSON`, { cause })
  }
  // A newer control plane may know kinds of changes that this process does not, and ignoring one would leave an access open.
  if (!Check(lineSchema, line)) throw new Error(`${name} sent a line of an unknown kind: run the same version on both sides`)
  return line
}
