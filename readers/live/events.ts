// Server-sent events as text (WHATWG HTML, "Server-sent events"): one event is lines and an empty line.

export const eventStreamType = 'text/event-stream'

/** Why a stream ends, for the program that reads it. */
export type EndReason = 'access_ended' | 'slow' | 'stopping' | 'unavailable'

const endDetails: Readonly<Record<EndReason, string>> = {
  access_ended: 'the right to read has ended',
  slow: 'what was sent is not read: come back with Last-Event-ID',
  stopping: 'this process stops: come back with Last-Event-ID',
  unavailable: 'it cannot be gone on now: come back with Last-Event-ID',
}

/** @param data JSON, in which no line ends */
export function recordEvent(id: string, data: string): string {
  return `id: ${id}\ndata: ${data}\n\n`
}

/**
 * What a stream begins with: how long a client waits before it comes back, and where it would go on. An id without data is no event; the client remembers it
 * all the same.
 */
export function greeting(retryMs: number, id: string): string {
  return `retry: ${retryMs}\nid: ${id}\n\n`
}

/** A comment for those in between, and an id, so that the way back stays short where nothing comes. */
export function heartbeat(id: string): string {
  return `: heartbeat\nid: ${id}\n\n`
}

/** Records between the event before and the one after are lost. */
export function lostEvent(): string {
  const detail = 'records from before are no longer in the log: read them with GET /channels/<channel>/messages'
  return namedEvent('lost', { detail })
}

export function endEvent(reason: EndReason): string {
  return namedEvent('end', { reason, detail: endDetails[reason] })
}

function namedEvent(name: string, data: object): string {
  return `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`
}

const rangesMax = 20

/** Whether the Accept header (RFC 9110 §12.5.1) takes an event stream. */
export function takesEvents(accept: string | undefined): boolean {
  if (accept === undefined || accept.trim() === '') return true
  const qualities = new Map(accept.split(',', rangesMax).map(rangeOf))
  for (const type of [eventStreamType, 'text/*', '*/*']) {
    const quality = qualities.get(type)
    if (quality !== undefined) return quality > 0
  }
  return false
}

function rangeOf(text: string): [type: string, quality: number] {
  const [type = '', ...parameters] = text.split(';').map(part => part.trim().toLowerCase())
  const quality = Number(parameters.find(parameter => parameter.startsWith('q='))?.slice(2) ?? 1)
  return [type, quality >= 0 ? quality : 1]
}
