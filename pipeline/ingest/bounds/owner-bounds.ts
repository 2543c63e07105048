// What the things of users who registered themselves may publish: bytes a minute, and formats. Anyone can be such a user, and the disk of the log and the
// formats of a store are for all. What they share is shared equally: once it is used up, only those are refused who have more than an equal part.
//
// All of it is in the memory of this process, so each ingest process counts separately, from its start.

import type { Logger } from '../../../config/logger.ts'
import { HttpError } from '../../../http/errors.ts'
import type { Decoded } from '../strict-handling.ts'
import { openBuckets } from './quotas.ts'

export interface OwnerBounds {
  /**
   * Rejects a message if the bytes are used up now; counts nothing.
   *
   * @throws HttpError `too_many_requests`, which says when to retry
   */
  check(owner: string): void
  /**
   * Counts messages, or nothing if it throws, except that formats stay counted.
   *
   * @returns a function that undoes it for messages that were not stored, except that their formats stay counted
   * @throws HttpError like `check`; `too_large` for messages that never fit, `forbidden` for a format too many
   */
  take(owner: string, messages: readonly Decoded[]): () => void
}

/** Of the things of one owner. */
const bytesPerMinute = 1024 * 1024
/** Of all owners together: 11.25 GiB a day, which the file of the embedded log holds. */
const allBytesPerMinute = 8 * bytesPerMinute
/** What a message takes besides its payload: many of them may be small. */
const messageBytes = 200
/** What a row takes in a store: a payload of few bytes may have many. */
const rowBytes = 150

/** Of one owner. */
const formatsMax = 16
/** Of all owners together: a tenth of those that a store has by default. Twice as many with those of owners who have less than an equal part. */
const allFormatsMax = 100
/** Whose formats are remembered. Beyond that the earliest owner may publish as many again, within those of all owners. */
const ownersMax = 10_000

const ownerMost = 'the things of a user who registered themselves publish at most'
const allMost = 'all things of users who registered themselves publish together at most'
const liftBounds = 'ask an administrator to lift the bounds of the user (PUT /users/<id>/bounded)'

/**
 * @param logger gets one warning for each bound of all owners, when it is first met
 * @param nowMs a monotonic clock
 */
export function openOwnerBounds(logger?: Pick<Logger, 'warn'>, nowMs: () => number = () => performance.now()): OwnerBounds {
  const owners = openBuckets(bytesPerMinute)
  const all = openBuckets(allBytesPerMinute)
  const warned = new Set<string>()
  const takeFormat = openFormats(warnOnce)

  function warnOnce(bound: string): void {
    if (!warned.has(bound)) logger?.warn(`${bound}: from now on those with more than an equal part are refused (GET /users: "bounded")`)
    warned.add(bound)
  }

  function sharedMs(now: number, owner: string, bytes: number): number {
    const waitMs = all.waitMs('', now, bytes)
    if (waitMs === 0) return 0
    warnOnce(`${allMost} ${allBytesPerMinute} bytes a minute`)
    // What an owner has used of an equal part is forgotten within a minute.
    return owners.isEqualPart(owner, now, bytes, allBytesPerMinute) ? 0 : Math.min(waitMs, 60_000)
  }

  function checkAt(now: number, owner: string, bytes: number): void {
    const ownerMs = owners.waitMs(owner, now, bytes)
    const allMs = sharedMs(now, owner, bytes)
    if (ownerMs === 0 && allMs === 0) return
    const bound = ownerMs >= allMs ? `${ownerMost} ${bytesPerMinute}` : `${allMost} ${allBytesPerMinute}`
    const retryAfterSeconds = Math.ceil(Math.max(ownerMs, allMs) / 1000)
    const detail = `${bound} bytes a minute: retry after ${retryAfterSeconds} s, or ${liftBounds}`
    throw new HttpError('too_many_requests', detail, { retryAfterSeconds })
  }

  function add(owner: string, bytes: number): void {
    const now = nowMs()
    owners.add(owner, bytes, now)
    all.add('', bytes, now)
  }

  return {
    check: owner => checkAt(nowMs(), owner, messageBytes),
    take(owner, messages) {
      let bytes = 0
      let allRows = 0
      for (const { payloadBytes, rows } of messages) {
        bytes += Math.max(payloadBytes + messageBytes, rows * rowBytes)
        allRows += rows
      }
      if (bytes > bytesPerMinute) {
        const isOne = messages.length === 1
        const [count, its] = isOne ? ['the message counts', 'its'] : ['the messages count', 'their']
        const instead = isOne ? 'split it into several' : 'send fewer in one request'
        const detail = `${count} as ${bytes} bytes, for ${its} ${allRows} rows or ${its} length, and ${ownerMost} ${bytesPerMinute} a minute: ${instead}, or ${liftBounds}`
        throw new HttpError('too_large', detail)
      }
      checkAt(nowMs(), owner, bytes)
      for (const { format } of messages) if (format !== undefined) takeFormat(owner, format)
      add(owner, -bytes)
      return () => add(owner, bytes)
    },
  }
}

/** @returns a function that notes a format, and throws HttpError `forbidden` for one too many */
function openFormats(warnOnce: (bound: string) => void): (owner: string, format: string) => void {
  const all = new Set<string>()
  const formatsByOwner = new Map<string, Set<string>>()

  function refusal(bound: string): HttpError {
    return new HttpError('forbidden', `${bound} formats of JSON: publish one of those before, or ${liftBounds}`)
  }

  return (owner, format) => {
    const formats = formatsByOwner.get(owner) ?? new Set<string>()
    if (formats.has(format)) return
    if (formats.size >= formatsMax) throw refusal(`${ownerMost} ${formatsMax}`)
    if (!all.has(format) && all.size >= allFormatsMax) {
      warnOnce(`${allMost} ${allFormatsMax} formats of JSON`)
      const owners = formats.size === 0 ? formatsByOwner.size + 1 : formatsByOwner.size
      if (formats.size >= allFormatsMax / owners || all.size >= 2 * allFormatsMax) throw refusal(`${allMost} ${allFormatsMax}`)
    }
    if (formats.size === 0 && formatsByOwner.size >= ownersMax) formatsByOwner.delete(formatsByOwner.keys().next().value!)
    all.add(format)
    formatsByOwner.set(owner, formats.add(format))
  }
}
