// Devices that speak MQTT in packets, whatever becomes of the servers: a publisher sends again what was not acknowledged, and a subscriber has a session that
// outlives its connections.

import { connect } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'
import { generate, type IConnackPacket, type IConnectPacket, type IPublishPacket, type Packet, parser } from 'mqtt-packet'
import type { Random } from '../../fuzz/random.ts'
import { numberIn } from '../messages.ts'

export interface Device {
  readonly thing: string
  readonly key: string
  readonly clientId: string
  readonly version: 4 | 5
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

export interface Publisher {
  /** Numbers of messages that were acknowledged. */
  readonly acknowledged: ReadonlySet<number>
  /** Sent and not acknowledged. */
  inFlight(): number
  /** Resolves when all that was sent is acknowledged, or after the time; what is not acknowledged then is a fault. */
  stop(msMax?: number): Promise<void>
}

/** Longer than all time limits and waits in a row. */
const stuckMs = 60_000
const windowMax = 32
const burst = 8

/** @param next the number of the next message, and where it is published @param onFault called for a refused message */
export function startPublisher(
  device: Device,
  perSecond: number,
  next: () => { readonly number: number; readonly topic: string; readonly payload: Buffer },
  onFault: (text: string) => void,
): Publisher {
  const acknowledged = new Set<number>()
  /** By packet id, in the order in which they were sent. */
  const unacknowledged = new Map<number, { readonly number: number; readonly packet: IPublishPacket }>()
  let isStopping = false
  let isStopped = false
  let link: Link | undefined
  let lastId = 0

  function onPacket(packet: Packet): void {
    if (packet.cmd !== 'puback') return
    const sent = unacknowledged.get(packet.messageId!)
    if (sent === undefined || (packet.reasonCode ?? 0) >= 0x80) return onFault(`${device.clientId} got ${JSON.stringify(packet)}`)
    unacknowledged.delete(packet.messageId!)
    acknowledged.add(sent.number)
  }

  function publish(): void {
    const { number, topic, payload } = next()
    do lastId = (lastId % 65_535) + 1
    while (unacknowledged.has(lastId))
    const packet = { cmd: 'publish', qos: 1, dup: false, retain: false, messageId: lastId, topic, payload } as const
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

  async function connectAgain(): Promise<void> {
    while (!isDone()) {
      const opened = await openLink(device, true, onPacket)
      if (opened === undefined) {
        await wait(50 + device.random.below(100))
        continue
      }
      for (const { packet } of unacknowledged.values()) opened.send({ ...packet, dup: true })
      link = opened
      if (isDone()) opened.cut()
      await opened.ended
      link = undefined
    }
  }

  const running = Promise.all([flow(), connectAgain()])
  running.catch(() => undefined)
  return {
    acknowledged,
    inFlight: () => unacknowledged.size,
    async stop(msMax = stuckMs) {
      isStopping = true
      await Promise.race([running, wait(msMax, undefined, { ref: false })])
      isStopped = true
      if (unacknowledged.size > 0) onFault(`${unacknowledged.size} messages of ${device.clientId} were never acknowledged`)
      await running
    },
  }
}

/** How often a message was delivered: as new, and with DUP. */
export interface Deliveries {
  fresh: number
  repeats: number
  /** By which connections, and when. */
  readonly by: string[]
}

export interface Subscriber {
  readonly name: string
  /** By the number of the message. */
  readonly heard: ReadonlyMap<number, Deliveries>
  /** Resolves with the first SUBACK. */
  readonly listening: Promise<void>
  /** Its device hangs and then ends the connection, so that what is sent meanwhile never arrives. */
  cut(): Promise<void>
  stop(): Promise<void>
}

/** A pause before some acknowledgements, in which messages wait for one. */
const pauseMsMax = 200
const hangMs = 100

/** @param onFault called for a lost session */
export function startSubscriber(device: Device, filters: readonly string[], onFault: (text: string) => void): Subscriber {
  const heard = new Map<number, Deliveries>()
  const listening = Promise.withResolvers<void>()
  let isListening = false
  let isStopped = false
  let connections = 0
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

  const goesOn = (): boolean => !isStopped

  async function connectAgain(): Promise<void> {
    while (goesOn()) {
      connections++
      const waiting: number[] = []
      const opened = await openLink(device, false, packet => {
        if (packet.cmd === 'publish') {
          hear(packet.payload.toString(), packet.dup)
          waiting.push(packet.messageId!)
        } else if (packet.cmd === 'suback') {
          if (packet.granted.some(code => code !== 1))
            return onFault(`${device.clientId} may not subscribe: ${JSON.stringify(packet.granted)}`)
          isListening = true
          listening.resolve()
        }
      })
      if (opened === undefined) {
        await wait(50 + device.random.below(100))
        continue
      }
      link = opened
      if (!opened.isSessionPresent) {
        if (isListening) onFault(`the session of ${device.clientId} is gone`)
        opened.send({ cmd: 'subscribe', messageId: 1, subscriptions: filters.map(topic => ({ topic, qos: 1 })) })
      }
      const end = new AbortController()
      const ended = opened.ended.then(() => end.abort())
      while (!end.signal.aborted && goesOn()) {
        await Promise.race([wait(device.random.oneIn(20) ? device.random.below(pauseMsMax) : 5), ended])
        // In the order in which they came (MQTT 5 §4.6).
        for (const messageId of waiting.splice(0)) opened.send({ cmd: 'puback', messageId })
      }
      opened.cut()
      link = undefined
    }
  }

  const running = connectAgain()
  running.catch(() => undefined)
  return {
    name: device.clientId,
    heard,
    listening: listening.promise,
    async cut() {
      const cut = link
      cut?.pause()
      await wait(hangMs)
      cut?.cut()
    },
    async stop() {
      isStopped = true
      link?.cut()
      await running
    },
  }
}
