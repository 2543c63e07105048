// What the decoder does not check of a packet: well-formed strings, properties that stand once, and the length of what comes before a payload.

import { isUtf8 } from 'node:buffer'
import type { IPublishPacket } from 'mqtt-packet'
import { PacketError, reasons } from './reasons.ts'

/** Of a packet without a payload; of a PUBLISH topic and properties. */
export const packetHeadBytesMax = 16_384

/** Types of packets (MQTT 5 §2.1.2). */
export const kinds = { connect: 1, publish: 3, subscribe: 8, unsubscribe: 10, disconnect: 14 } as const

/** Bits of the flags of a CONNECT (MQTT 5 §3.1.2.3). */
const flags = { will: 0x04, willQos: 0x18, password: 0x40, userName: 0x80 } as const

/** The second one is of MQTT 3.1. */
const protocolNames: ReadonlySet<string> = new Set(['MQTT', 'MQIsdp'])

type Field = 1 | 2 | 4 | 'variable' | 'text' | 'bytes' | 'pair'
/** Of MQTT 5, by identifier (§2.2.2.2): how many bytes they have, or what they are. */
const properties: Readonly<Record<number, Field>> = {
  ...Object.fromEntries([0x01, 0x17, 0x19, 0x24, 0x25, 0x28, 0x29, 0x2a].map(id => [id, 1 as const])),
  ...Object.fromEntries([0x13, 0x21, 0x22, 0x23].map(id => [id, 2 as const])),
  ...Object.fromEntries([0x02, 0x11, 0x18, 0x27].map(id => [id, 4 as const])),
  ...Object.fromEntries([0x03, 0x08, 0x12, 0x15, 0x1a, 0x1c, 0x1f].map(id => [id, 'text' as const])),
  0x09: 'bytes',
  0x16: 'bytes',
  0x0b: 'variable',
  0x26: 'pair',
}
const userProperty = 0x26

/** @returns a message without properties, as most are: `mqtt-packet` takes ten times as long for it @throws PacketError */
export function checkWellFormed(frame: Buffer, version: 4 | 5 | undefined): IPublishPacket | undefined {
  const kind = frame[0]! >> 4
  let at = 1
  let end = frame.length

  const isMore = (): boolean => at < end

  /** Skips so many bytes. @returns where they begin */
  function skip(bytes: number): number {
    if (at + bytes > end) throw malformed('a field has more bytes than there are')
    at += bytes
    return at - bytes
  }

  /** A variable byte integer (MQTT 5 §1.5.5). */
  function number(): number {
    let value = 0
    for (let digit = 0; digit < 4; digit++) {
      const byte = frame[skip(1)]!
      value += (byte & 0x7f) * 128 ** digit
      if (byte < 0x80) return value
    }
    throw malformed('a number has more than four bytes')
  }

  function bytes(): Buffer {
    const start = skip(frame.readUInt16BE(skip(2)))
    return frame.subarray(start, at)
  }

  /** MQTT 5 §1.5.4, MQTT 3.1.1 §1.5.3. */
  function text(): Buffer {
    const found = bytes()
    if (!isUtf8(found)) throw malformed('a string is not UTF-8')
    if (found.includes(0)) throw malformed('a string has U+0000')
    return found
  }

  function property(seen: Set<number>): void {
    const id = number()
    const field = properties[id]
    if (field === undefined) throw malformed(`there is no property ${id}`)
    if (seen.has(id) && id !== userProperty) throw new PacketError(reasons.protocolError, `a packet has the property ${id} twice`)
    seen.add(id)
    if (field === 'variable') number()
    else if (field === 'bytes') bytes()
    else if (typeof field === 'number') skip(field)
    else {
      text()
      if (field === 'pair') text()
    }
  }

  function allProperties(): number {
    const length = number()
    const start = skip(length)
    if (length > packetHeadBytesMax) {
      const sentence = `the properties of a packet have ${length} bytes: at most ${packetHeadBytesMax} are allowed`
      throw new PacketError(reasons.packetTooLarge, sentence)
    }
    const [packetEnd, seen] = [end, new Set<number>()]
    at = start
    end = start + length
    while (isMore()) property(seen)
    end = packetEnd
    return length
  }

  number()
  if (kind === kinds.connect) {
    if (!protocolNames.has(text().toString())) throw malformed('it is of another protocol')
    const level = frame[skip(1)]!
    if (level !== 4 && level !== 5) {
      // The first bit is that of bridges.
      const what = level >= 0x80 ? 'connects as a bridge: use MQTT 3.1.1 or 5 as it is' : 'speaks another version of MQTT: use 3.1.1 or 5'
      throw new PacketError(reasons.unsupportedVersion, `the client ${what}`)
    }
    const set = frame[skip(1)]!
    skip(2)
    if (level === 5) allProperties()
    text()
    if (level === 4 && (set & flags.password) !== 0 && (set & flags.userName) === 0) {
      throw malformed('it has a password and no user name, which may be empty')
    }
    if ((set & flags.willQos) === flags.willQos) throw malformed('the will has QoS 3')
    if (set & flags.will) {
      if (level === 5) allProperties()
      text()
      bytes()
    }
    if (set & flags.userName) text()
    if (set & flags.password) bytes()
    if (at < end) throw malformed('it is longer than its fields')
  } else if (kind === kinds.publish) {
    if ((frame[0]! & 0x0e) === 0x08) throw malformed('a message of QoS 0 is marked as sent again')
    const topic = text().toString()
    const [qos, retain] = [(frame[0]! >> 1) & 3, (frame[0]! & 1) === 1]
    const messageId = qos > 0 ? frame.readUInt16BE(skip(2)) : 0
    if ((version === 5 && allProperties() > 0) || qos === 3) return undefined
    return { cmd: 'publish', topic, qos: qos as 0 | 1 | 2, messageId, dup: (frame[0]! & 8) > 0, retain, payload: frame.subarray(at) }
  } else if (kind === kinds.subscribe || kind === kinds.unsubscribe) {
    skip(2)
    if (version === 5) allProperties()
    while (isMore()) {
      text()
      if (kind === kinds.subscribe) skip(1)
    }
  } else if (kind === kinds.disconnect && version === 5 && end - at > 1) {
    skip(1)
    allProperties()
  }
  return undefined
}

function malformed(what: string): PacketError {
  return new PacketError(reasons.malformedPacket, `a packet is malformed: ${what}`)
}
