// Devices that speak MQTT in packets, whatever becomes of the servers: a publisher sends again what was not acknowledged, a subscriber has a session that outlives
// its connections, and with QoS 2 a publisher has one too.

import { connect } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'
import {
  generate,
  type IConnackPacket,
  type IConnectPacket,
  type IPublishPacket,
  type IPubrelPacket,
  type Packet,
  parser,
} from 'mqtt-packet'
import type { Random } from '../../fuzz/random.ts'
import { numberIn } from '../messages.ts'

export interface Device {
  readonly thing: string
  readonly key: string
  readonly clientId: string
  readonly version: 4 | 5
  /** Of what it publishes, or subscribes to. */
  readonly qos: 1 | 2
  /** Of the instances: each connection is to one of them. */
  readonly ports: readonly number[]
  readonly random: Random
}

interface Link {
  send(packet: Packet): void
  /** Reads nothing more. */
  pause(): void
  cut(): void
  readonly isSessionPresent: boolean
  readonly ended: Promise<void>
}

const answerMsMax = 5_000
const expirySeconds = 3_600

/** @returns undefined if it is refused, or there is no answer */
async function openLink(device: Device, isClean: boolean, onPacket: (packet: Packet) => void): Promise<Link | undefined> {
  const { thing, key, clientId, version, ports, random } = device
  const socket = connect(random.pick(ports), '127.0.0.1')
  const connack = Promise.withResolvers<IConnackPacket | undefined>()
  const bytes = parser({ protocolVersion: version }).on('packet', packet => {
    if (socket.destroyed) return
    if (packet.cmd === 'connack') connack.resolve(packet)
    else onPacket(packet)
  })
  socket.on('data', chunk => bytes.parse(chunk))
  socket.on('error', () => undefined)
  const ended = new Promise<void>(resolve =>
    socket.on('close', () => {
      connack.resolve(undefined)
      resolve()
    }),
  )
  const send = (packet: Packet): void => void socket.write(generate(packet, { protocolVersion: version }))
  const login = { clientId, username: thing, password: Buffer.from(key), clean: isClean, keepalive: 0 }
  const properties = version === 5 && !isClean ? { properties: { sessionExpiryInterval: expirySeconds } } : {}
  send({ cmd: 'connect', protocolId: 'MQTT', protocolVersion: version, ...login, ...properties } satisfies IConnectPacket)
  const timer = setTimeout(() => socket.destroy(), answerMsMax)
  const answer = await connack.promise
  clearTimeout(timer)
  if (answer === undefined || (answer.reasonCode ?? answer.returnCode) !== 0) {
    socket.destroy()
    return undefined
  }
  const [pause, cut] = [() => void socket.pause(), () => void socket.destroy()]
  return { send, pause, cut, isSessionPresent: answer.sessionPresent, ended }
}

interface Connected {
  readonly device: Device
  readonly isClean: boolean
  readonly isOver: () => boolean
  readonly onPacket: (packet: Packet) => void
  /** Called for a lost session. */
  readonly onFault: (text: string) => void
  /** Resolves when the connection is no longer needed, or has ended. */
  readonly serve: (link: Link) => Promise<void>
}

/** Connects again whenever the connection has ended. */
async function keepConnected({ device, isClean, isOver, onPacket, onFault, serve }: Connected): Promise<void> {
  let hasSession = false
  while (!isOver()) {
    const link = await openLink(device, isClean, onPacket)
    if (link === undefined) {
      await wait(50 + device.random.below(100))
      continue
    }
    if (hasSession && !link.isSessionPresent) onFault(`the session of ${device.clientId} is gone`)
    hasSession = !isClean
    await serve(link)
    link.cut()
  }
}

/** How long a device hangs before its connection ends, so that what is sent meanwhile never arrives. */
const hangMs = 100

async function hangUp(link: Link | undefined): Promise<void> {
  link?.pause()
  await wait(hangMs)
  link?.cut()
}

export interface Publisher {
  readonly qos: 1 | 2
  /** Numbers of messages that were acknowledged. */
  readonly acknowledged: ReadonlySet<number>
  /** Sent and not acknowledged; with QoS 2 to the last step. */
  inFlight(): number
  cut(): Promise<void>
  /** Resolves when all that was sent is acknowledged, or after the time; what is not acknowledged then is a fault. */
  stop(msMax?: number): Promise<void>
}

/** Longer than all time limits and waits in a row. */
const stuckMs = 60_000
const windowMax = 32
const burst = 8
/** Its PUBCOMP was lost (MQTT 5 §4.3.3). */
const idNotFound = 0x92

/** @param next the number of the next message, and where it is published @param onFault called for a refused message, and a lost session */
export function startPublisher(
  device: Device,
  perSecond: number,
  next: () => { readonly number: number; readonly topic: string; readonly payload: Buffer },
  onFault: (text: string) => void,
): Publisher {
  const { qos } = device
  const acknowledged = new Set<number>()
  /** By packet id, in the order in which they were sent: the packet that waits for an answer. */
  const unacknowledged = new Map<number, { readonly number: number; readonly packet: IPublishPacket | IPubrelPacket }>()
  let isStopping = false
  let isStopped = false
  let link: Link | undefined
  let lastId = 0

  function onPacket(packet: Packet): void {
    if (packet.cmd !== 'puback' && packet.cmd !== 'pubrec' && packet.cmd !== 'pubcomp') return
    const messageId = packet.messageId!
    const { reasonCode = 0 } = packet
    const sent = unacknowledged.get(messageId)
    const isRefused = reasonCode >= 0x80 && !(packet.cmd === 'pubcomp' && reasonCode === idNotFound)
    if (sent === undefined || isRefused) return onFault(`${device.clientId} got ${JSON.stringify(packet)}`)
    acknowledged.add(sent.number)
    if (packet.cmd === 'pubrec') {
      const release = { cmd: 'pubrel', messageId } as const
      unacknowledged.set(messageId, { number: sent.number, packet: release })
      link?.send(release)
    } else unacknowledged.delete(messageId)
  }

  function publish(): void {
    const { number, topic, payload } = next()
    do lastId = (lastId % 65_535) + 1
    while (unacknowledged.has(lastId))
    const packet = { cmd: 'publish', qos, dup: false, retain: false, messageId: lastId, topic, payload } as const
    unacknowledged.set(lastId, { number, packet })
    link?.send(packet)
  }

  const isOpen = (): boolean => !isStopping && unacknowledged.size < windowMax
  const isDone = (): boolean => isStopped || (isStopping && unacknowledged.size === 0)

  async function flow(): Promise<void> {
    while (!isDone()) {
      for (let nth = 0; nth < burst && isOpen(); nth++) publish()
      await wait((burst * 1000) / perSecond)
    }
    link?.cut()
  }

  async function serve(opened: Link): Promise<void> {
    for (const { packet } of unacknowledged.values()) opened.send(packet.cmd === 'publish' ? { ...packet, dup: true } : packet)
    link = opened
    if (!isDone()) await opened.ended
    link = undefined
  }

  const running = Promise.all([flow(), keepConnected({ device, isClean: qos === 1, isOver: isDone, onPacket, onFault, serve })])
  running.catch(() => undefined)
  return {
    qos,
    acknowledged,
    inFlight: () => unacknowledged.size,
    cut: () => hangUp(link),
    async stop(msMax = stuckMs) {
      isStopping = true
      await Promise.race([running, wait(msMax, undefined, { ref: false })])
      isStopped = true
      if (unacknowledged.size > 0) onFault(`${unacknowledged.size} messages of ${device.clientId} were never acknowledged`)
      await running
    },
  }
}

/** How often a message was delivered: as new, and with DUP. With QoS 2 what comes again under its packet id is not delivered again. */
export interface Deliveries {
  fresh: number
  repeats: number
  /** By which connections, and when. */
  readonly by: string[]
}

export interface Subscriber {
  readonly name: string
  readonly qos: 1 | 2
  /** By the number of the message. */
  readonly heard: ReadonlyMap<number, Deliveries>
  /** Resolves with the first SUBACK. */
  readonly listening: Promise<void>
  cut(): Promise<void>
  stop(): Promise<void>
}

/** A pause before some acknowledgements, in which messages wait for one. */
const pauseMsMax = 200

/** @param onFault called for a lost session */
export function startSubscriber(device: Device, filters: readonly string[], onFault: (text: string) => void): Subscriber {
  const { qos } = device
  const heard = new Map<number, Deliveries>()
  const listening = Promise.withResolvers<void>()
  /** Of QoS 2, until their PUBREL. */
  const unreleased = new Set<number>()
  const answers: Packet[] = []
  let isStopped = false
  let connections = 1
  let link: Link | undefined

  function hear(payload: string, dup: boolean): void {
    const number = numberIn(payload)
    if (number === undefined) return onFault(`${device.clientId} heard ${payload}`)
    let deliveries = heard.get(number)
    if (deliveries === undefined) heard.set(number, (deliveries = { fresh: 0, repeats: 0, by: [] }))
    if (dup) deliveries.repeats++
    else deliveries.fresh++
    deliveries.by.push(`connection ${connections}${dup ? ' with DUP' : ''} at ${new Date().toISOString()}`)
  }

  function onPacket(packet: Packet): void {
    const { messageId = 0 } = packet
    if (packet.cmd === 'publish') {
      if (!unreleased.has(messageId)) hear(packet.payload.toString(), packet.dup)
      if (qos === 2) unreleased.add(messageId)
      answers.push({ cmd: qos === 1 ? 'puback' : 'pubrec', messageId })
    } else if (packet.cmd === 'pubrel') {
      unreleased.delete(messageId)
      answers.push({ cmd: 'pubcomp', messageId })
    } else if (packet.cmd === 'suback') {
      if (packet.granted.some(code => code !== qos)) onFault(`${device.clientId} may not subscribe: ${JSON.stringify(packet.granted)}`)
      listening.resolve()
    }
  }

  const isOver = (): boolean => isStopped

  async function serve(opened: Link): Promise<void> {
    link = opened
    if (!opened.isSessionPresent) opened.send({ cmd: 'subscribe', messageId: 1, subscriptions: filters.map(topic => ({ topic, qos })) })
    const end = new AbortController()
    const ended = opened.ended.then(() => end.abort())
    while (!end.signal.aborted && !isOver()) {
      await Promise.race([wait(device.random.oneIn(20) ? device.random.below(pauseMsMax) : 5), ended])
      // In the order in which they came (MQTT 5 §4.6).
      for (const answer of answers.splice(0)) opened.send(answer)
    }
    link = undefined
    connections++
  }

  const running = keepConnected({ device, isClean: false, isOver, onPacket, onFault, serve })
  running.catch(() => undefined)
  return {
    name: device.clientId,
    qos,
    heard,
    listening: listening.promise,
    cut: () => hangUp(link),
    async stop() {
      isStopped = true
      link?.cut()
      await running
    },
  }
}
