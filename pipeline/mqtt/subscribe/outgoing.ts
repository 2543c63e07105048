// A message of the log as the PUBLISH that subscribers get. Its head is made once for all that take it alike, and they share its payload: a message may have
// many subscribers.

import { oncePerMessage } from '../../live/messages.ts'
import type { RawMessage } from '../../source.ts'
import { encode, type Version } from '../packets.ts'
import type { Qos } from '../sessions/records.ts'

export type Outgoing = ReturnType<typeof makeOutgoing>

/** Of a string (MQTT 5 §1.5.4). */
const stringBytesMax = 65_535
/** A smaller payload is written with its head: a copy costs less than a second write. */
const joinedBytesMax = 4_096
const nothing = Buffer.alloc(0)

type Sent = Pick<RawMessage, 'channel' | 'subtopic' | 'contentType' | 'payload'>

export const outgoingOf = oncePerMessage(({ raw }) => makeOutgoing(raw))

export function makeOutgoing({ channel, subtopic, contentType, payload }: Sent) {
  const parts = subtopic === '' ? [] : subtopic.split('.')
  const topic = ['channels', channel, 'messages', ...parts].join('/')
  const topicBytes = Buffer.byteLength(topic)
  const rest = payload.length > joinedBytesMax ? payload : nothing
  /** By version and QoS, without identifiers; the packet id is written into a copy. */
  const common = new Map<string, Buffer>()

  function generate(version: Version, qos: Qos, messageId: number, identifiers: readonly number[]): Buffer {
    const properties = {
      ...(contentType === '' ? {} : { contentType }),
      ...(identifiers.length === 0 ? {} : { subscriptionIdentifier: [...identifiers] }),
    }
    const packet = { cmd: 'publish', topic, payload: Buffer.from(payload.buffer, payload.byteOffset, payload.byteLength) } as const
    const bytes = encode({ ...packet, qos, messageId, dup: false, retain: false, ...(version === 5 ? { properties } : {}) }, version)
    return Buffer.from(bytes.subarray(0, bytes.length - rest.length))
  }

  return {
    /** The parts of its subtopic, for filters. */
    parts,
    /** False if what another producer chose cannot be sent: a subtopic with `+`, `#`, a NUL or half a surrogate pair, or more than a string of MQTT holds. */
    isSendable:
      !/[+#\0]/.test(subtopic) &&
      subtopic.isWellFormed() &&
      contentType.isWellFormed() &&
      topicBytes <= stringBytesMax &&
      Buffer.byteLength(contentType) <= stringBytesMax,
    /** What follows the head of the packet. */
    rest,
    /** The packet, up to `rest`. @param identifiers of the subscriptions that it matches (MQTT 5 §3.3.2.3.8) */
    head(version: Version, qos: Qos, messageId: number, identifiers: readonly number[]): Buffer {
      if (identifiers.length > 0) return generate(version, qos, messageId, identifiers)
      const key = `${version} ${qos}`
      let bytes = common.get(key)
      if (bytes === undefined) {
        bytes = generate(version, qos, 1, [])
        common.set(key, bytes)
      }
      if (qos === 0) return bytes
      const own = Buffer.from(bytes)
      own.writeUInt16BE(messageId, idAt(own, topicBytes))
      return own
    },
  }
}

/** Where the packet id of a PUBLISH is: after the kind, the length, and the topic with its length (MQTT 5 §3.3.2). */
function idAt(bytes: Buffer, topicBytes: number): number {
  let at = 1
  while (bytes[at++]! >= 0x80);
  return at + 2 + topicBytes
}
