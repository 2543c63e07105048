// One connection to a broker, by mqtt.js: subscribes, and acknowledges each message when the log has it.
//
// mqtt.js waits with a PUBACK until `customHandleAcks` and `handleMessage` have called back, and handles no other packet meanwhile: one message would be
// in flight at a time (100 a second instead of 13,000, measured with Mosquitto and Kafka on one machine), and a log that is away for longer than the
// keep-alive would end the connection. If `handleMessage` calls back with an error, mqtt.js sends no PUBACK and goes on, and the PUBACK is sent from here.

import { setImmediate } from 'node:timers/promises'
import type { IClientOptions, IPublishPacket, ISubscriptionMap } from 'mqtt'
import { pause } from '../../config/aborting.ts'
import type { TlsTexts } from '../../http/tls-files.ts'
import { openAcknowledgements } from './acknowledgements.ts'
import type { ReadEnvelope } from './envelope.ts'
import type { Intake } from './intake.ts'
import type { BrokerOptions } from './options.ts'

export interface ConnectionParts {
  readonly options: BrokerOptions
  readonly tls: TlsTexts | undefined
  readonly read: ReadEnvelope
  readonly intake: Intake
  /** Microseconds since 1970. */
  readonly receiptUs: () => number
  /** Messages can come. @param isResumed whether the broker still had the session */
  readonly onSubscribed: (isResumed: boolean) => void
}

const connectTimeoutMs = 10_000
const keepAliveSeconds = 30
/** Time for messages that were taken to be stored and acknowledged before the connection ends, and for the end itself. */
const drainMsMax = 1_500
const endMsMax = 300
/** Beyond it a broker drops a message by itself (MQTT 5 §3.1.2.11.4), and 3.1.1 has no bound: well above what a log takes. */
const packetBytesMax = 16 * 1024 * 1024
/** Does not deliver retained messages: they are older than the subscription, and of no known time. */
const noRetained = 2

const unacknowledged = new Error('the PUBACK follows later')

/**
 * Resolves after `signal` aborted and what was taken is stored and acknowledged.
 *
 * @throws Error with the reason if the connection cannot be made, or ends
 */
export async function serveConnection(parts: ConnectionParts, signal: AbortSignal): Promise<void> {
  const { options, tls, read, intake, receiptUs, onSubscribed } = parts
  const { connect, ReasonCodes } = await import('mqtt')
  const client = connect(options.url, clientOptions(options, tls))
  const ended = Promise.withResolvers<void>()
  const stop = Promise.withResolvers<void>()
  let failure: Error | undefined
  let stalled: NodeJS.Timeout | undefined
  let isResumed = false
  let isOpen = false
  const onStop = (): void => stop.resolve()
  signal.addEventListener('abort', onStop, { once: true })

  const acknowledge = openAcknowledgements(packets => {
    if (client.stream.writable) client.stream.write(packets)
  })
  const fail = (error: Error): void => {
    failure ??= error
    client.end(true)
  }

  /** At the first message: one that waits for the log keeps mqtt.js from seeing the SUBACK. */
  function open(): void {
    if (isOpen) return
    isOpen = true
    onSubscribed(isResumed)
  }

  client.on('error', error => (failure ??= withHint(error)))
  client.on('disconnect', ({ reasonCode = 0 }) =>
    fail(reasonError(`the broker ended the connection: ${ReasonCodes[reasonCode as 0]}`, reasonCode)),
  )
  client.on('close', () => ended.reject(failure ?? new Error('the broker closed the connection')))
  client.on('connect', ({ sessionPresent, properties }) => {
    isResumed = sessionPresent
    if (isShared(options) && properties?.sharedSubscriptionAvailable === false)
      return fail(new Error('the broker has no shared subscriptions: leave broker.share empty, and run one bridge'))
    client.subscribe(subscriptions(options), (error, granted = []) => {
      if (error !== null) return fail(error)
      const weak = granted.find(({ qos }) => qos !== 1)
      if (weak !== undefined) return fail(new Error(`the broker does not grant QoS 1 for ${weak.topic}: allow it there`))
      open()
    })
  })

  function take(packet: IPublishPacket): void {
    const { qos, messageId } = packet
    // Only a broker of MQTT 3.1.1 sends them.
    const isStored = packet.retain ? Promise.resolve(true) : intake.take(read(packet, receiptUs()))
    if (qos === 1) acknowledge(messageId!, isStored)
  }

  /** While the bridge takes nothing, mqtt.js sees no answer to its pings. */
  async function stall(goOn: () => void): Promise<void> {
    stalled = setInterval(() => {
      client.sendPing()
      client.reschedulePing(true)
    }, keepAliveSeconds * 500)
    await intake.capacity()
    clearInterval(stalled)
    goOn()
  }

  client.handleMessage = (packet, callback) => {
    open()
    const goOn = (): void => {
      // One that the broker sends again is left to that.
      if (!signal.aborted && client.stream.writable) take(packet)
      callback(unacknowledged)
    }
    if (intake.isFull() && !signal.aborted) void stall(goOn)
    else goOn()
  }

  try {
    if (signal.aborted) onStop()
    await Promise.race([ended.promise, stop.promise])
    await Promise.race([intake.settled(), pause(drainMsMax)])
    // The last acknowledgements are written in this turn of the event loop, too.
    await setImmediate()
    await Promise.race([client.endAsync(), pause(endMsMax)])
  } finally {
    clearInterval(stalled)
    signal.removeEventListener('abort', onStop)
    ended.promise.catch(() => undefined)
    client.end(true)
  }
}

function clientOptions(
  { version, clientId, username, password, inFlightMax, sessionExpirySeconds }: BrokerOptions,
  tls: TlsTexts | undefined,
) {
  const properties = { receiveMaximum: inFlightMax, sessionExpiryInterval: sessionExpirySeconds, maximumPacketSize: packetBytesMax }
  return {
    clientId,
    clean: false,
    keepalive: keepAliveSeconds,
    connectTimeout: connectTimeoutMs,
    // Each connection is another client, so that nothing of one is sent on the next.
    reconnectPeriod: 0,
    resubscribe: false,
    timerVariant: 'native',
    ...(version === '5' ? { protocolVersion: 5, properties } : { protocolVersion: 4 }),
    ...(username === undefined ? {} : { username }),
    ...(password === undefined ? {} : { password }),
    ...tls,
  } satisfies IClientOptions
}

const isShared = ({ version, share }: BrokerOptions): boolean => version === '5' && share !== ''

function subscriptions(options: BrokerOptions): ISubscriptionMap {
  const prefix = isShared(options) ? `$share/${options.share}/` : ''
  const wanted = options.version === '5' ? { qos: 1 as const, rh: noRetained } : { qos: 1 as const }
  return Object.fromEntries(options.topics.map(topic => [prefix + topic, wanted]))
}

/** By reason code of MQTT 5 and return code of 3.1.1. */
const hints: Readonly<Record<number, string>> = {
  1: 'set broker.version',
  2: 'set broker.client_id',
  4: 'check broker.username and broker.password',
  5: 'check broker.username and broker.password',
  132: 'set broker.version',
  133: 'set broker.client_id',
  134: 'check broker.username and broker.password',
  135: 'check broker.username and broker.password, and the rights at the broker',
  142: 'give each bridge its own broker.client_id',
}

function reasonError(text: string, code: number): Error {
  const hint = hints[code]
  return new Error(hint === undefined ? text : `${text}: ${hint}`)
}

/** Errors of sockets have texts as codes. */
function withHint(error: Error & { readonly code?: unknown }): Error {
  return typeof error.code === 'number' ? reasonError(error.message, error.code) : error
}
