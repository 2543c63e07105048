// Follows the control plane's changes over HTTP, and knows up to when it has heard of all of them.

import { setTimeout as wait } from 'node:timers/promises'
import { Value } from 'typebox/value'
import type { OutageReport } from '../../config/outage.ts'
import type { AccessChange } from '../client.ts'
import { changesPath, type Line, lineBytesMax, lineSchema, silenceMsMax } from '../internal/wire.ts'
import { ControlPlaneRefusalError, type ControlRequests } from './requests.ts'

export interface FollowedChanges {
  /** The attempt under way to hear changes: resolves at once while they are heard. @throws why they are not */
  attempt(): Promise<void>
  /** Why changes are not heard; undefined while they are, and before the first attempt has ended. */
  failure(): Error | undefined
  /** Up to when everything was heard, by `performance.now()`; `-Infinity` before the first time. */
  readonly heardMs: () => number
  close(): Promise<void>
}

/** Comes again after this time, doubled at each failure up to the second one, with jitter so that processes do not come in step. */
const reconnectMsMin = 100
const reconnectMsMax = 1_000

/** Follows until `close`; a stream that breaks is opened again, and begins with the change `unheard`. */
export function followChanges(requests: ControlRequests, onChange: (change: AccessChange) => void, outage: OutageReport): FollowedChanges {
  const closing = new AbortController()
  let heardMs = -Infinity
  let whole = false
  let failure: Error | undefined
  let attempt = newAttempt()

  function onLine(line: Line): void {
    if (!whole) {
      // What changed while the stream was broken is not told again.
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
    // Before the first line of a stream the start says what it waits for.
    if (heardMs !== -Infinity) {
      const meanwhile = failure instanceof ControlPlaneRefusalError ? 'not ready' : 'grants are used for a few seconds at most'
      outage.failed(failure, { waitMs, meanwhile })
    }
    whole = false
    attempt.reject(failure)
    attempt = newAttempt()
  }

  async function keepFollowing(): Promise<void> {
    let waitMs = reconnectMsMin
    while (!closing.signal.aborted) {
      const lines = openLines(requests, closing.signal)
      try {
        for await (const line of lines) onLine(line)
      } catch (error) {
        if (closing.signal.aborted) return
        waitMs = whole ? reconnectMsMin : Math.min(waitMs * 2, reconnectMsMax)
        onBroken(error, waitMs)
      }
      // Aborted by `close`, which the loop looks at.
      await wait(waitMs * (0.5 + Math.random() / 2), undefined, { signal: closing.signal }).catch(() => undefined)
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
  // A process that has started does not wait for one.
  attempt.promise.catch(() => undefined)
  return attempt
}

/**
 * The lines of one stream, checked for holes. Never ends by itself.
 *
 * @throws Error when the stream breaks, says nothing for 3 s, or skips a number; AccessUnavailableError when it cannot be opened
 */
async function* openLines(requests: ControlRequests, closing: AbortSignal): AsyncGenerator<Line> {
  const silence = new AbortController()
  const watch = setTimeout(() => silence.abort(new Error(`${requests.name} said nothing for ${silenceMsMax / 1000} s`)), silenceMsMax)
  try {
    const body = await requests.follow(changesPath, AbortSignal.any([closing, silence.signal]))
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
    throw new Error(`${name} sent a line that is no JSON`, { cause })
  }
  // A newer control plane may know changes that this process does not: to ignore one would leave an access open.
  if (!Value.Check(lineSchema, line)) throw new Error(`${name} sent a line of an unknown kind: run the same version on both sides`)
  return line
}
