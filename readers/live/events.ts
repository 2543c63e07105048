// Formats server-sent events (WHATWG HTML, "Server-sent events"): an event is some lines followed by an empty line.

import { type EndReason, endEventOf, namedEvent } from '../../http/event-stream.ts'

/** @param data JSON without line breaks */
export function recordEvent(id: string, data: string): string {
  return `id: ${id}\ndata: ${data}\n\n`
}

/**
 * The start of a stream: how long a client waits before it reconnects, and the id from which it would continue. An id without data is not an event, but
 * clients remember it.
 */
export function greeting(retryMs: number, id: string): string {
  return `retry: ${retryMs}\nid: ${id}\n\n`
}

/** A comment that keeps proxies from closing the connection, and an id, so that a client of a quiet stream has little to catch up on. */
export function heartbeat(id: string): string {
  return `: heartbeat\nid: ${id}\n\n`
}

/** Reports that records between the previous and the next event are lost. */
export function lostEvent(): string {
  const detail = 'earlier records are no longer in the log: read them with GET /channels/<channel>/messages'
  return namedEvent('lost', { detail })
}

/** The last event of a stream that the server ends. */
export function endEvent(reason: EndReason): string {
  return endEventOf(reason, ' with Last-Event-ID')
}
