// MQTT on a real port and a log in memory, with the keys of the tests of ingest, and timers that the test fires.

import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { IConnackPacket, IConnectPacket, IPublishPacket } from 'mqtt-packet'
import { Registry } from 'prom-client'
import { expect, onTestFinished } from 'vitest'
import type { AccessChange, AccessControl } from '../../../control-plane/client.ts'
import type { ServerOptions } from '../../../http/server.ts'
import type { ServerTls } from '../../../http/tls-files.ts'
import { takeWebSockets } from '../../../http/web-sockets.ts'
import { openCompactedFile } from '../../../pipeline/compacted-file.ts'
import type { ArrivalListener } from '../../../pipeline/ingest/arrivals.ts'
import { openIngestMetrics } from '../../../pipeline/ingest/metrics.ts'
import type { IngestOptions } from '../../../pipeline/ingest/options.ts'
import { openPublisher } from '../../../pipeline/ingest/publisher.ts'
import type { LiveMessages } from '../../../pipeline/live/messages.ts'
import type { Log, LogPosition, OutgoingMessage } from '../../../pipeline/log.ts'
import { type MqttListener, openMqttListener } from '../../../pipeline/mqtt/listener.ts'
import { openMqttMetrics } from '../../../pipeline/mqtt/metrics.ts'
import type { MqttOptions } from '../../../pipeline/mqtt/options.ts'
import { openRetained, type RetainedStore } from '../../../pipeline/mqtt/retained/store.ts'
import { type HeldSession, openSessions, type SessionStore, SessionsUnavailableError } from '../../../pipeline/mqtt/sessions/store.ts'
import { startServer } from '../../http/test-server.ts'
import { temporaryFolder } from '../../temporary-folder.ts'
import { type FakeLog, openFakeLog } from '../fake-log.ts'
import type { Shown } from '../ingest/device.ts'
import { channel, key, openKeys, thing, unlimited } from '../ingest/site.ts'
import { type FakeTopic, openFakeTopic } from '../live/fake-topic.ts'
import { openLive } from '../live/follower.ts'
import { type Client, connectPacket, openClient, type Version } from './client.ts'

export const payloadBytesMax = 1_000
export const pack = Buffer.from('[{"n":"temperature","v":21.5}]')

export const topic = `channels/${channel}/messages`

/** Fires when the test says so. */
export interface ManualTimer {
  readonly waitMs: number
  restarts: number
  isStopped: boolean
  fire(): void
}

export interface MqttSite {
  readonly port: number
  readonly takeWebSocket: MqttListener['takeWebSocket']
  readonly log: FakeLog
  /** What subscribers hear. */
  readonly topic: FakeTopic
  readonly keys: ReturnType<typeof openKeys>
  readonly registry: Registry
  readonly timers: ManualTimer[]
  /** What was logged for people. */
  readonly said: string[]
  /** With these fields. */
  readonly fieldsOfLines: object[]
  /** What was logged at debug. */
  readonly whispered: string[]
  change(change: AccessChange): void
  /** With the key of the connected thing, and its id unless there is another password. */
  open(version?: Version, own?: Partial<IConnectPacket>): Promise<Client>
  /** An accepted connection. */
  connect(version?: Version, own?: Partial<IConnectPacket>): Promise<Client & { readonly connack: IConnackPacket }>
  close(drainMsMax: number): Promise<void>
}

export interface SiteOptions extends Partial<Omit<MqttOptions, 'host' | 'port' | 'clientCertificates'>> {
  readonly thingMessagesPerMinute?: number
  readonly halfOpenMax?: number
  /** None by default. */
  readonly sessions?: SessionStore
  /** What the console shows; none by default. */
  readonly arrivals?: ArrivalListener
  /** In a file by default. */
  readonly retained?: RetainedStore
  /** In place of one of its own. */
  readonly topic?: FakeTopic
  /** In place of those of the topic. */
  readonly live?: LiveMessages
  readonly tls?: ServerTls
  /** Of the certificate of `tls`, for the clients. */
  readonly ca?: string
  /** By the clients. */
  readonly shown?: Shown
  /** How clients over WebSocket show certificates. */
  readonly webSocketCertificates?: IngestOptions['clientCertificates']
  /** In place of the keys of the tests. */
  readonly access?: AccessControl
  /** None by default. */
  readonly deletedChannels?: AccessControl['deletedChannels']
  /** In place of that of the log. */
  readonly append?: (messages: readonly OutgoingMessage[], log: FakeLog) => Promise<LogPosition[]>
}

export async function openSite({
  append,
  thingMessagesPerMinute = 0,
  halfOpenMax = 1_000,
  tls,
  ca,
  shown,
  webSocketCertificates = 'none',
  access,
  deletedChannels,
  sessions,
  arrivals,
  retained = openRetainedFile(),
  topic = openFakeTopic(2),
  live: ownLive,
  ...own
}: SiteOptions = {}): Promise<MqttSite> {
  const log = openFakeLog()
  const used: Log = append === undefined ? log : { ...log, append: messages => append(messages, log) }
  const registry = new Registry()
  const live = openLive(topic)
  onTestFinished(() => live.close())
  onTestFinished(() => retained.close())
  const metrics = openIngestMetrics(registry)
  const said: string[] = []
  const whispered: string[] = []
  const fieldsOfLines: object[] = []
  const timers: ManualTimer[] = []
  const listeners = new Set<(change: AccessChange) => void>()
  const keys = openKeys()
  if (deletedChannels !== undefined) keys.deletedChannels = deletedChannels
  keys.onChange = listener => {
    listeners.add(listener)
    return () => listeners.delete(listener)
  }
  const options = {
    connectionsMax: 100,
    thingConnectionsMax: 10,
    ownerConnectionsMax: 10,
    inFlightBytesMax: 1_000_000,
    connectTimeoutMs: 10_000,
    inFlightMax: 4,
    subscriptionsMax: 5,
    sessionExpirySecondsMax: 3_600,
    thingSessionsMax: 2,
    retainedMax: 3,
    ...own,
  }
  const ingest = { payloadBytesMax, ...unlimited, thingMessagesPerMinute }
  const note = (fields: object, sentence: string): void => {
    said.push(sentence)
    fieldsOfLines.push(fields)
  }
  const listener = await openMqttListener({
    publisher: openPublisher({ log: used, logLabel: () => '1', metrics, options: ingest }),
    access: access ?? keys,
    metrics,
    options: { ...options, host: '127.0.0.1', port: 0 },
    payloadBytesMax,
    logger: { info: note, debug: (_fields: unknown, sentence: string) => void whispered.push(sentence), warn: note, error: note } as never,
    halfOpenMax,
    tls,
    clientCertificates: webSocketCertificates,
    connectionMetrics: openMqttMetrics(registry),
    live: ownLive ?? live,
    sessions,
    retained,
    arrivals,
    startTimer(waitMs, call) {
      const timer: ManualTimer = { waitMs, restarts: 0, isStopped: false, fire: call }
      timers.push(timer)
      return { restart: () => void timer.restarts++, stop: () => void (timer.isStopped = true) }
    },
  })
  onTestFinished(() => listener.close(0))
  const port = Number(new URL(listener.url).port)

  async function open(version: Version = 5, own: Partial<IConnectPacket> = {}): Promise<Client> {
    const client = await openClient(port, version, ca, shown)
    client.send(connectPacket(version, { username: own.password === undefined ? thing : '', password: Buffer.from(key), ...own }))
    return client
  }

  return {
    port,
    takeWebSocket: wanted => listener.takeWebSocket(wanted),
    log,
    topic,
    keys,
    registry,
    timers,
    said,
    whispered,
    fieldsOfLines,
    change: change => listeners.forEach(call => call(change)),
    open,
    async connect(version, own) {
      const client = await open(version, own)
      const connack = (await client.next()) as IConnackPacket
      if ((connack?.reasonCode ?? connack?.returnCode) !== 0) throw new Error(`refused: ${JSON.stringify(connack)}`)
      return { ...client, connack }
    },
    close: drainMsMax => listener.close(drainMsMax),
  }
}

/** A server of HTTP with the WebSockets of the site. @returns their URL */
export async function openWebSockets(site: MqttSite, options: Partial<ServerOptions> = {}): Promise<string> {
  const { app, port } = await startServer(options)
  takeWebSockets(app, '/mqtt', site.takeWebSocket)
  onTestFinished(() => app.close())
  return `${options.tls === undefined ? 'ws' : 'wss'}://127.0.0.1:${port}/mqtt`
}

/** In a file, as of `up`. @param clock milliseconds since 1970 */
export function openSessionsFile(path = join(temporaryFolder(), 'sessions.sqlite'), clock?: () => number): SessionStore {
  return openSessions({ openTopic: use => openCompactedFile(path, use), ...(clock && { clock }) })
}

/** In a file, as of `up`. @param topicsMax of one channel */
export function openRetainedFile(topicsMax = 3, path = join(temporaryFolder(), 'retained.sqlite')): RetainedStore {
  return openRetained(use => openCompactedFile(path, use), topicsMax)
}

export function publish(client: Client, own: Partial<IPublishPacket> = {}): void {
  client.send({ cmd: 'publish', qos: 1, dup: false, retain: false, messageId: 1, topic, payload: pack, ...own })
}

/** Resolves when the server has handled all that was sent before. */
export async function ping(client: Client): Promise<void> {
  client.send({ cmd: 'pingreq' })
  expect(await client.next()).toMatchObject({ cmd: 'pingresp' })
}

/** Resolves when what was sent has been read, and what follows from that was begun, though nothing is answered. */
export async function turns(): Promise<void> {
  for (let turn = 0; turn < 50; turn++) await nextTurn()
}

/** An append that waits until the test releases it. */
export function holdAppends(): { readonly waiting: (() => void)[]; readonly append: NonNullable<SiteOptions['append']> } {
  const waiting: (() => void)[] = []
  const append: NonNullable<SiteOptions['append']> = async (messages, log) => {
    await new Promise<void>(resolve => void waiting.push(resolve))
    return log.append(messages)
  }
  return { waiting, append }
}

/** @param own in place of what a held session has */
export function withHeld(store: SessionStore, own: (held: HeldSession) => Partial<HeldSession>): SessionStore {
  return {
    ...store,
    async take(...taking) {
      const held = await store.take(...taking)
      return { ...held, ...own(held) }
    },
  }
}

/** A store that saves nothing while this returns true. */
export function fullWhile(isFull: () => boolean, store: SessionStore): SessionStore {
  const full = async (): Promise<never> => {
    throw new SessionsUnavailableError('the disk is full')
  }
  return withHeld(store, held => ({ save: session => (isFull() ? full() : held.save(session)) }))
}
