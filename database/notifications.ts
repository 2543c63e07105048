// Receives NOTIFY messages (PostgreSQL manual, "NOTIFY") on a dedicated connection, and reports when some may have been missed.

import type { Client } from 'pg'
import { pause } from '../config/aborting.ts'
import { toDatabaseError } from './failure.ts'
import { locationOf } from './server.ts'

export interface NotificationsOptions {
  /** As in `openServer`. A pooler in transaction mode (PgBouncer) loses notifications: use the server's own address. */
  readonly url: string
  readonly applicationName: string
  /** The channel: first argument of `pg_notify`. */
  readonly channel: string
  /** How often to verify that notifications arrive. */
  readonly beatMs?: number
  /** How long connecting, and later each beat, may take before the connection counts as lost. */
  readonly answerMsMax?: number
}

export interface NotificationListener {
  /** Called for each notification of the channel, in commit order. */
  onMessage(payload: string): void
  /** Called when every notification committed so far has been delivered: first after connecting, then at every beat. */
  onBeat(): void
  /** Called when a connection is lost or cannot be opened: notifications since the last beat may have been missed. */
  onLost(error: Error): void
}

export interface Notifications {
  close(): Promise<void>
}

/** Wait before reconnecting: doubled after each failure up to the maximum, with jitter so that instances do not reconnect at the same time. */
const reconnectMsMin = 100
const reconnectMsMax = 2_000
/** How long closing a connection may take. */
const politeMsMax = 500
const beatPrefix = 'beat '

/** Opens the connection and keeps it open until `close`; a lost one is always reopened. */
export function openNotifications(options: NotificationsOptions, listener: NotificationListener): Notifications {
  const closing = new AbortController()
  const done = keepListening(options, listener, closing.signal)
  return {
    async close() {
      closing.abort()
      await done
    },
  }
}

async function keepListening(options: NotificationsOptions, listener: NotificationListener, signal: AbortSignal): Promise<void> {
  let waitMs = reconnectMsMin
  while (!signal.aborted) {
    let heard = false
    const onBeat = (): void => {
      heard = true
      listener.onBeat()
    }
    try {
      await listen(options, { ...listener, onBeat }, signal)
    } catch (error) {
      if (signal.aborted) return
      listener.onLost(toDatabaseError(error, locationOf(options.url)))
    }
    waitMs = heard ? reconnectMsMin : Math.min(waitMs * 2, reconnectMsMax)
    await pause(waitMs * (0.5 + Math.random() / 2), signal)
  }
}

/** One connection, until it is lost (then it throws) or `signal` aborts. */
async function listen(options: NotificationsOptions, listener: NotificationListener, signal: AbortSignal): Promise<never> {
  const { url, applicationName, channel, beatMs = 1_000, answerMsMax = 2_000 } = options
  const { default: pg } = await import('pg')
  signal.throwIfAborted()
  const client = new pg.Client({
    connectionString: url,
    application_name: applicationName,
    keepAlive: true,
    connectionTimeoutMillis: answerMsMax,
    query_timeout: answerMsMax,
  })
  const lost = Promise.withResolvers<never>()
  // The races below report it; without a race in progress it must not be an unhandled rejection.
  lost.promise.catch(() => undefined)
  const orLost = <Result>(work: Promise<Result>): Promise<Result> => Promise.race([work, lost.promise])
  const leave = (): void => lost.reject(signal.reason)
  signal.addEventListener('abort', leave)
  client.on('error', error => lost.reject(error))
  client.on('end', () => lost.reject(new Error('the server ended the connection')))
  let beat = { text: '', arrived: (): void => undefined }
  client.on('notification', ({ payload = '' }) => {
    if (!payload.startsWith(beatPrefix)) listener.onMessage(payload)
    else if (payload === beat.text) beat.arrived()
  })
  try {
    await orLost(client.connect())
    await orLost(client.query(`LISTEN ${pg.escapeIdentifier(channel)}`))
    for (;;) {
      // Only a notification that comes back proves that notifications arrive; an answered query does not.
      const arrival = Promise.withResolvers<void>()
      beat = { text: `${beatPrefix}${crypto.randomUUID()}`, arrived: arrival.resolve }
      await orLost(client.query('SELECT pg_notify($1, $2)', [channel, beat.text]))
      await orLost(Promise.race([arrival.promise, late(answerMsMax)]))
      listener.onBeat()
      await orLost(pause(beatMs, signal))
    }
  } finally {
    signal.removeEventListener('abort', leave)
    await end(client)
  }
}

/** Closes the connection; if the server does not answer soon, drops the socket. */
async function end(client: Client): Promise<void> {
  // The connection is no longer needed, so an error does not matter.
  await Promise.race([client.end().catch(() => undefined), pause(politeMsMax)])
  const { stream } = (client as unknown as { connection: { stream: { destroy(): void } } }).connection
  stream.destroy()
}

function late(afterMs: number): Promise<never> {
  return new Promise((_resolve, reject) => {
    setTimeout(() => reject(new Error('a notification did not come back in time: a pooler in between may drop them')), afterMs).unref()
  })
}
