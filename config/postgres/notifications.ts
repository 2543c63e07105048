// A dedicated connection that hears NOTIFY (PostgreSQL manual, "NOTIFY"), and knows at any time whether it may have missed some.

import { setTimeout as wait } from 'node:timers/promises'
import type { Client } from 'pg'
import { toDatabaseError } from './failure.ts'
import { locationOf } from './server.ts'

export interface NotificationsOptions {
  /** As of `openServer`. A pooler that hands a connection to others between transactions, as PgBouncer can, loses notifications: name the server itself. */
  readonly url: string
  readonly applicationName: string
  /** Of a notification: what `pg_notify` is called with first. */
  readonly channel: string
  /** How often to make sure that notifications arrive. */
  readonly beatMs?: number
  /** How long a connection, and then each beat, may take before the connection counts as lost. */
  readonly answerMsMax?: number
}

export interface NotificationListener {
  /** A notification of the channel; they come in the order of their commits. */
  onMessage(payload: string): void
  /** Every notification committed up to now has been given: at first after a connection is there, then at every beat. */
  onBeat(): void
  /** From the last beat on notifications may have been missed. Called for each connection that was lost or could not be made. */
  onLost(error: Error): void
}

export interface Notifications {
  close(): Promise<void>
}

/** Connects again after this time, doubled at each failure up to the second one, with jitter so that instances do not come in step. */
const reconnectMsMin = 100
const reconnectMsMax = 2_000
/** How long an ended connection may take to say goodbye. */
const politeMsMax = 500
const beatPrefix = 'beat '

/** Opens the connection and keeps it open until `close`: what is lost is opened again, for ever. */
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
  const client = new pg.Client({
    connectionString: url,
    application_name: applicationName,
    keepAlive: true,
    connectionTimeoutMillis: answerMsMax,
    query_timeout: answerMsMax,
  })
  const lost = Promise.withResolvers<never>()
  // Whoever waits at that moment is told by the races below; without anybody waiting it is no unhandled rejection.
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
      // Only what comes back by the same way shows that notifications arrive: a query that is answered does not.
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

/** Ends politely where the server answers soon; a socket that does not is dropped. */
async function end(client: Client): Promise<void> {
  // It is of no more use, whatever it says now.
  await Promise.race([client.end().catch(() => undefined), pause(politeMsMax)])
  const { stream } = (client as unknown as { connection: { stream: { destroy(): void } } }).connection
  stream.destroy()
}

function late(afterMs: number): Promise<never> {
  return new Promise((_resolve, reject) => {
    setTimeout(() => reject(new Error('a notification did not come back in time: a pooler between may swallow them')), afterMs).unref()
  })
}

/** Resolves after the time, or at once when the signal aborts. */
function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return wait(ms, undefined, signal === undefined ? {} : { signal }).catch(() => undefined)
}
