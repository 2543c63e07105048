// A source of the fake log. It passes the conformance suite.

import { envelopeHeaders, retainHeader } from '../../pipeline/envelope-headers.ts'
import type { OutgoingMessage } from '../../pipeline/log.ts'
import { noKey, type RawChunk, type RawCursor, type RawMessage, type Source } from '../../pipeline/source.ts'
import { startOffset } from '../../pipeline/writer/start-offset.ts'
import { logPartition } from '../../transformers/log-partition.ts'
import type { SourceSettings } from '../conformance/source.ts'
import type { FakeLog } from './fake-log.ts'
import { positionsOf } from './positions.ts'

const partition = 0
const at = logPartition(0, partition)

export interface FakeSource extends Source {
  /** Number of messages returned so far. */
  readonly handedOut: number
  /** Revokes the partition from its current reader; with a reason if a failure caused it. */
  revoke(reason?: Error): void
}

export function openFakeSource(log: FakeLog, settings: SourceSettings = {}): FakeSource {
  const { consumer = 'writer', startAt, chunkMessagesMax = 1000, chunkBytesMax = Infinity } = settings
  const closing = new AbortController()
  const end = (): number => log.start + log.messages.length
  let handedOut = 0
  let revocation = new AbortController()

  function read(from: number, next: number): RawChunk | undefined {
    const messages: OutgoingMessage[] = []
    let byteLength = 0
    for (let at = next - log.start; at < log.messages.length && messages.length < chunkMessagesMax && byteLength < chunkBytesMax; at++) {
      messages.push(log.messages[at]!)
      byteLength += log.messages[at]!.payload.byteLength
    }
    if (messages.length === 0) return undefined
    handedOut += messages.length
    return { at, from, to: next + messages.length, lost: next - from, byteLength, cursor: () => openCursor(messages, next) }
  }

  return {
    get handedOut() {
      return handedOut
    },
    revoke: reason => revocation.abort(reason),
    async *chunks(signal, onStart, onShare) {
      let ending = AbortSignal.any([signal, closing.signal])
      if (ending.aborted) return
      onShare?.(positionsOf({ [partition]: log.committed.get(consumer) ?? log.start }), revocation.signal)
      const stored = (await startAt?.([at]))?.get(at)
      const committed = startAt === undefined ? log.committed.get(consumer) : undefined
      const answer = startOffset({
        log: log.name,
        partition,
        stored,
        committed,
        start: log.start,
        end: end(),
        acceptLost: settings.acceptLost ?? false,
      })
      if (answer.lost > 0) settings.onLost?.(at, answer.lost)
      revocation = new AbortController()
      ending = AbortSignal.any([ending, revocation.signal])
      onStart?.(positionsOf({ [partition]: answer.from }), revocation.signal, positionsOf({ [partition]: end() }))
      let { from, next } = answer
      while (!ending.aborted) {
        const chunk = read(from, next)
        if (chunk === undefined) {
          await appended(log, ending)
          continue
        }
        from = next = chunk.to
        yield chunk
      }
    },
    ends: async () => positionsOf({ [partition]: end() }),
    async commit(positions) {
      const offset = positions.get(at)
      if (offset !== undefined && offset > (log.committed.get(consumer) ?? -1)) log.committed.set(consumer, offset)
    },
    async close() {
      closing.abort()
    },
  }
}

function appended(log: FakeLog, signal: AbortSignal): Promise<void> {
  return new Promise(resolve => {
    const forget = log.onAppend(wake)
    function wake(): void {
      forget()
      signal.removeEventListener('abort', wake)
      resolve()
    }
    signal.addEventListener('abort', wake)
  })
}

function openCursor(messages: readonly OutgoingMessage[], first: number): RawCursor {
  const message = { offset: first - 1 } as RawMessage
  let at = -1
  return {
    message,
    next() {
      at++
      const from = messages[at]
      if (from === undefined) return false
      const { headers: _, ...envelope } = from
      Object.assign(message, envelope, { offset: first + at, fault: from.channel === '' ? noKey : undefined })
      return true
    },
    key: () => messages[at]!.key ?? (message.channel === '' ? null : Buffer.from(message.channel)),
    headers: () => [...(messages[at]!.key === undefined ? envelopeHeaders(message) : []), ...(messages[at]!.headers ?? [])],
    isRetained: () => (messages[at]!.headers ?? []).some(({ key, value }) => key === retainHeader.key && value === retainHeader.value),
  }
}
