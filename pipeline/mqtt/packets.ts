// Bytes to MQTT packets, one at a time, and packets to bytes. `mqtt-packet` reads what is inside a packet; where one ends is found here, so that a packet
// that is too large is refused before it arrives, and the next one is not read before this one was handled.

import { generate, type IConnectPacket, type IPubackPacket, type Packet, type Parser, parser } from 'mqtt-packet'
import { PacketError, reasons } from './reasons.ts'
import { checkWellFormed, kinds, packetHeadBytesMax } from './well-formed.ts'

export type Version = 4 | 5

/** Of QoS 1 and 2, with their first byte (MQTT 5 §2.1.3). */
export const acknowledgements: ReadonlyMap<string, number> = new Map(
  Object.entries({ puback: 0x40, pubrec: 0x50, pubrel: 0x62, pubcomp: 0x70 }),
)

/** One byte for the kind and at most four for the length (MQTT 5 §2.1). */
const headBytesMax = 5
/** Segments that are kept as they arrived. */
const chunksMax = 32

/** Splits a stream of bytes into packets. */
export function openFrames() {
  let chunks: Buffer[] = []
  let length = 0

  /** The first chunk, with at least so many bytes, of those that are there. */
  function first(bytes: number): Buffer {
    if (chunks.length > 1 && chunks[0]!.length < bytes) chunks = [Buffer.concat(chunks)]
    return chunks[0]!
  }

  return {
    push(chunk: Buffer): void {
      chunks.push(chunk)
      length += chunk.length
      // A Buffer costs more than the few bytes that a segment may have: the newest are joined, each byte as often as its number has binary digits.
      while (chunks.length > chunksMax && chunks.at(-1)!.length >= chunks.at(-2)!.length) chunks.push(Buffer.concat(chunks.splice(-2)))
    },
    /**
     * The bytes of the next packet; undefined until all of them are there.
     *
     * @throws PacketError if its length is malformed, above `bytesMax`, or above `packetHeadBytesMax` of a packet that carries no message
     */
    next(bytesMax: number): Buffer | undefined {
      if (length < 2) return undefined
      const head = first(headBytesMax)
      const size = sizeOf(head)
      if (size === undefined) return undefined
      const max = head[0]! >> 4 === kinds.publish ? bytesMax : Math.min(bytesMax, packetHeadBytesMax)
      if (size > max) {
        throw new PacketError(reasons.packetTooLarge, `a packet has ${size} bytes: at most ${max} are allowed`)
      }
      if (length < size) return undefined
      const bytes = first(size)
      if (bytes.length === size) chunks.shift()
      else chunks[0] = bytes.subarray(size)
      length -= size
      return bytes.subarray(0, size)
    },
  }
}

/** The bytes of a packet, from its variable byte integer (MQTT 5 §1.5.5); undefined if that is not complete. */
function sizeOf(head: Buffer): number | undefined {
  let rest = 0
  for (let at = 1; at < headBytesMax; at++) {
    const byte = head[at]
    if (byte === undefined) return undefined
    rest += (byte & 0x7f) * 128 ** (at - 1)
    if (byte < 0x80) return at + 1 + rest
  }
  throw new PacketError(reasons.malformedPacket, 'the length of a packet has more than four bytes')
}

/**
 * The first packet of a connection.
 *
 * @throws PacketError if it is malformed, of another version of MQTT, or another packet
 */
export function decodeConnect(frame: Buffer): IConnectPacket & { readonly protocolVersion: Version } {
  if (frame[0]! >> 4 !== kinds.connect) throw new PacketError(reasons.protocolError, 'the first packet is not a CONNECT')
  checkWellFormed(frame, undefined)
  // A decoder keeps the version of the CONNECT that it reads, and so is used once.
  return openDecoder({})(frame) as IConnectPacket & { readonly protocolVersion: Version }
}

const decoders = { 4: openDecoder({ protocolVersion: 4 }), 5: openDecoder({ protocolVersion: 5 }) }

/**
 * A packet after the first one. The decoders are shared by all connections, as they keep nothing between packets.
 *
 * @throws PacketError if it is malformed, or another CONNECT (MQTT 5 §3.1)
 */
export function decode(frame: Buffer, version: Version): Packet {
  if (frame[0]! >> 4 === kinds.connect) throw new PacketError(reasons.protocolError, 'a second CONNECT on one connection')
  return checkWellFormed(frame, version) ?? decoders[version](frame)
}

function openDecoder(settings: { readonly protocolVersion?: Version }): (frame: Buffer) => Packet {
  let found: Packet | undefined
  let fault: Error | undefined
  let bytes = open()

  function open(): Parser {
    return parser({ ...settings })
      .on('packet', packet => {
        found = packet
      })
      .on('error', error => {
        fault = error
      })
  }

  return frame => {
    found = undefined
    fault = undefined
    try {
      bytes.parse(frame)
    } catch (error) {
      // It reads beyond the end of some packets.
      fault = error as Error
    }
    if (fault === undefined && found !== undefined) return found
    bytes = open()
    throw new PacketError(reasons.malformedPacket, `a packet is malformed: ${fault?.message ?? 'it has another length than it says'}`)
  }
}

/** @throws PacketError for a SUBSCRIBE or UNSUBSCRIBE without an id (MQTT 5 §2.2.1) or without a filter (§3.8.3, §3.10.3) */
export function checkFilters(messageId: number, filters: readonly unknown[], kind: string): void {
  checkId(messageId, kind)
  if (filters.length === 0) throw new PacketError(reasons.protocolError, `a ${kind} has no topic filter`)
}

/** @throws PacketError for a packet without an id (MQTT 5 §2.2.1) */
export function checkId(messageId: number, kind: string): void {
  if (messageId < 1) throw new PacketError(reasons.protocolError, `a ${kind} has no packet id`)
}

export function encode(packet: Packet, version: Version): Buffer {
  const { cmd, reasonCode = 0, messageId = 0 } = packet as IPubackPacket
  const kind = reasonCode === 0 ? acknowledgements.get(cmd) : undefined
  // Without a reason it is the same in both versions (MQTT 5 §3.4.2.1), and some clients of MQTT 5 read only that form.
  if (kind !== undefined) return Buffer.from([kind, 2, messageId >> 8, messageId & 0xff])
  return generate(packet, { protocolVersion: version })
}
