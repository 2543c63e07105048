// The normative statements of MQTT 3.1.1 and MQTT 5 (appendix B of each) that apply to a server to which devices publish and where they subscribe: as raw bytes, or which
// test shows them, or why none does.
//
// Longer than most files: one table.

import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { channel, key, thing } from '../ingest/site.ts'
import { openClient, type Version } from './client.ts'
import { openSite } from './site.ts'

type Bytes = readonly (number | string | Buffer)[]
interface Statement {
  /** By version; a statement that only one of them has is checked for that one. */
  readonly id: { readonly 4?: string; readonly 5?: string }
  readonly what: string
  /** Sent in place of a CONNECT. */
  readonly first?: (version: Version) => Buffer
  /** Sent after the CONNACK. */
  readonly after?: (version: Version) => Buffer
  /** What follows the CONNACK if there is one: the first bytes of packets, `closed` for none. */
  readonly answer?: Partial<Record<Version, string>>
  /** The start of the name of a test. */
  readonly shown?: readonly [
    file:
      | 'connect'
      | 'exactly-once'
      | 'packets'
      | 'publish'
      | 'retained'
      | 'sessions'
      | 'groups'
      | 'subscribe'
      | 'web-socket'
      | 'will-delay',
    name: string,
  ]
  readonly not?: string
}

const text = (value: string | Buffer): Buffer => {
  const bytes = Buffer.from(value as string)
  return Buffer.concat([Buffer.from([bytes.length >> 8, bytes.length & 0xff]), bytes])
}
/** With one byte of length, or two. */
const packet = (head: number, ...parts: Bytes): Buffer => {
  const body = Buffer.concat(parts.map(part => (typeof part === 'number' ? Buffer.from([part]) : Buffer.from(part as string))))
  const length = body.length < 128 ? [body.length] : [(body.length & 0x7f) | 0x80, body.length >> 7]
  return Buffer.concat([Buffer.from([head, ...length]), body])
}
/** MQTT 5 has properties where MQTT 3.1.1 has nothing. */
const none = (version: Version): Buffer => Buffer.from(version === 5 ? [0] : [])
const properties = (version: Version, ...bytes: number[]): Buffer => Buffer.from(version === 5 ? [bytes.length, ...bytes] : [])

const topic = `channels/${channel}/messages`
const payload = '[{"n":"a","v":1}]'

interface Connect {
  readonly head?: number
  readonly name?: string
  readonly flags?: number
  readonly clientId?: string | Buffer
  readonly between?: Buffer
  readonly user?: string | Buffer
  readonly own?: Buffer
  readonly rest?: Buffer
}
/** User name, password and clean session unless `flags` say other. */
const connect =
  ({
    head = 0x10,
    name = 'MQTT',
    flags = 0xc2,
    clientId = 'a',
    between = Buffer.alloc(0),
    user = thing,
    own,
    rest = Buffer.alloc(0),
  }: Connect = {}) =>
  (version: Version): Buffer =>
    packet(head, text(name), version, flags, 0, 0, own ?? none(version), text(clientId), between, text(user), text(key), rest)
const will = (version: Version, willTopic: string | Buffer = topic): Buffer =>
  Buffer.concat([none(version), text(willTopic), text(payload)])
const publish =
  (head: number, own: { topic?: string | Buffer; id?: number[]; properties?: number[] } = {}) =>
  (version: Version): Buffer =>
    packet(
      head,
      text(own.topic ?? topic),
      Buffer.from(own.id ?? (head & 6 ? [0, 1] : [])),
      properties(version, ...(own.properties ?? [])),
      payload,
    )
const ping = (): Buffer => packet(0xc0)

const malformed = { 4: 'closed', 5: 'e0 81' }
const wrong = { 4: 'closed', 5: 'e0 82' }
const closed = { 4: 'closed', 5: 'closed' }
const both = (id: string): Statement['id'] => ({ 4: id, 5: id })

const statements: readonly Statement[] = [
  // Strings and numbers
  {
    id: { 4: '1.5.3-1', 5: '1.5.4-1' },
    what: 'a topic with a surrogate',
    after: publish(0x30, { topic: Buffer.from([0x63, 0xed, 0xa0, 0x80]) }),
    answer: malformed,
  },
  {
    id: { 4: '1.5.3-1', 5: '1.5.4-1' },
    what: 'a client id that is not UTF-8',
    first: connect({ clientId: Buffer.from([0xc3, 0x28]) }),
    answer: closed,
  },
  {
    id: { 4: '1.5.3-1', 5: '1.5.4-1' },
    what: 'a user name that is not UTF-8',
    first: connect({ user: Buffer.from([0xff]) }),
    answer: closed,
  },
  {
    id: { 5: '1.5.4-1' },
    what: 'a user property that is not UTF-8',
    after: publish(0x30, { properties: [0x26, 0, 1, 0x61, 0, 1, 0xff] }),
    answer: malformed,
  },
  {
    id: { 5: '1.5.4-1' },
    what: 'a content type that is not UTF-8',
    after: publish(0x30, { properties: [0x03, 0, 1, 0xff] }),
    answer: malformed,
  },
  {
    id: { 4: '1.5.3-1', 5: '1.5.4-1' },
    what: 'the topic of a will that is not UTF-8',
    first: version => connect({ flags: 0xc6, between: will(version, Buffer.from([0xff])) })(version),
    answer: closed,
  },
  {
    id: { 4: '1.5.3-1', 5: '1.5.4-1' },
    what: 'a filter that is not UTF-8',
    after: version => packet(0x82, 0, 1, none(version), text(Buffer.from([0xff])), 0),
    answer: malformed,
  },
  { id: { 4: '1.5.3-2', 5: '1.5.4-2' }, what: 'a topic with U+0000', after: publish(0x30, { topic: `${topic}/\0` }), answer: malformed },
  { id: { 4: '1.5.3-2', 5: '1.5.4-2' }, what: 'a client id with U+0000', first: connect({ clientId: 'a\0' }), answer: closed },
  {
    id: { 4: '1.5.3-3', 5: '1.5.4-3' },
    what: 'U+FEFF in a topic',
    not: 'topics are compared as they are; the subtopic refuses it like other invisible characters',
  },
  { id: { 5: '1.5.5-1' }, what: 'a length in more bytes than needed', not: 'a statement for the sender; it is read' },
  {
    id: { 4: '2.2.3', 5: '1.5.5' },
    what: 'a length of more than four bytes',
    shown: ['packets', 'a length of more than four bytes is refused'],
  },
  // Fixed header and packet ids
  { id: { 4: '2.2.2-2', 5: '2.1.3-1' }, what: 'reserved flags of PINGREQ', after: () => packet(0xc1), answer: malformed },
  {
    id: { 4: '2.2.2-2', 5: '2.1.3-1' },
    what: 'reserved flags of SUBSCRIBE',
    after: version => packet(0x80, 0, 1, none(version), text('a'), 0),
    answer: malformed,
  },
  { id: { 4: '2.2.2-2', 5: '2.1.3-1' }, what: 'reserved flags of DISCONNECT', after: () => packet(0xe1), answer: malformed },
  { id: { 4: '2.2.2-2', 5: '2.1.3-1' }, what: 'reserved flags of CONNECT', first: connect({ head: 0x11 }), answer: closed },
  { id: { 4: '2.3.1-1', 5: '2.2.1-3' }, what: 'a PUBLISH with QoS 1 and packet id 0', after: publish(0x32, { id: [0, 0] }), answer: wrong },
  {
    id: { 4: '2.3.1-6', 5: '2.2.1-5' },
    what: 'the PUBACK has the id of its PUBLISH',
    after: publish(0x32, { id: [0x12, 0x34] }),
    answer: { 4: '40 02 12 34', 5: '40 02 12 34' },
  },
  {
    id: { 5: '2.2.2-1' },
    what: 'no properties are a length of 0',
    after: version => packet(0x30, text(topic), none(version).subarray(1)),
    answer: { 5: 'e0 81' },
  },
  // CONNECT
  { id: both('3.1.0-1'), what: 'the first packet is a CONNECT', shown: ['connect', 'a packet before the CONNECT, and a second CONNECT'] },
  { id: both('3.1.0-2'), what: 'a second CONNECT', after: connect(), answer: wrong },
  { id: both('3.1.2-1'), what: 'another protocol name', first: connect({ name: 'MQTX' }), answer: closed },
  { id: both('3.1.2-2'), what: 'another version', shown: ['connect', '%s is refused with the return code of the version'] },
  { id: both('3.1.2-3'), what: 'the reserved flag', first: connect({ flags: 0xc3 }), answer: closed },
  {
    id: { 4: '3.1.2-4', 5: '3.1.2-4' },
    what: 'a clean session',
    shown: ['sessions', '%s begins without one, and leaves nothing of the session before'],
  },
  {
    id: { 4: '3.1.2-8', 5: '3.1.2-8' },
    what: 'the will is published when the connection breaks',
    shown: ['publish', ': the will is published when the connection breaks'],
  },
  {
    id: { 4: '3.1.2-10', 5: '3.1.2-10' },
    what: 'the will is removed by a DISCONNECT',
    shown: ['publish', ': the will is published when the connection breaks'],
  },
  { id: { 4: '3.1.2-13', 5: '3.1.2-11' }, what: 'QoS of a will that is not there', first: connect({ flags: 0xca }), answer: closed },
  {
    id: { 4: '3.1.2-14', 5: '3.1.2-12' },
    what: 'a will of QoS 3',
    first: version => connect({ flags: 0xde, between: will(version) })(version),
    answer: closed,
  },
  {
    id: { 4: '3.1.2-15', 5: '3.1.2-13' },
    what: 'the retain flag of a will that is not there',
    first: connect({ flags: 0xe2 }),
    answer: closed,
  },
  {
    id: { 4: '3.1.2-22' },
    what: 'a password without a user name',
    first: version => packet(0x10, text('MQTT'), version, 0x42, 0, 0, text('a'), text(key)),
    answer: { 4: 'closed' },
  },
  { id: { 4: '3.1.2-24', 5: '3.1.2-22' }, what: 'keep-alive', shown: ['connect', 'MQTT version %i: one and a half of the keep-alive'] },
  { id: { 5: '3.1.2-29' }, what: 'reasons without texts', shown: ['publish', 'a client with %j gets codes without texts'] },
  {
    id: { 5: '3.1.2-25' },
    what: 'no packet above the Maximum Packet Size of the client',
    shown: ['publish', 'a client with %j gets codes without texts'],
  },
  { id: { 5: '3.1.2-30' }, what: 'enhanced authentication', shown: ['connect', 'enhanced authentication is refused'] },
  {
    id: { 5: '3.1.2.11' },
    what: 'a property twice',
    first: connect({ own: Buffer.from([10, 0x11, 0, 0, 0, 1, 0x11, 0, 0, 0, 1]) }),
    answer: { 5: 'closed' },
  },
  { id: { 5: '3.1.2.11.3' }, what: 'a Receive Maximum of 0', not: 'nothing is sent that it bounds' },
  {
    id: { 4: '3.1.3-5', 5: '3.1.3-5' },
    what: 'client ids of 1 to 23 letters and digits',
    shown: ['connect', 'a client of MQTT 5 gets what the server accepts'],
  },
  {
    id: { 4: '3.1.3-8', 5: '3.1.3-8' },
    what: 'a client id that is not accepted',
    shown: ['connect', 'MQTT 3.1.1: an empty client id needs a clean session'],
  },
  {
    id: { 5: '3.1.3-9' },
    what: 'a client that comes back within the delay of its will',
    shown: ['will-delay', 'a will that waits is not published if the client comes back'],
  },
  { id: { 5: '3.1.3-7' }, what: 'an assigned client id', shown: ['connect', 'a client of MQTT 5 gets what the server accepts'] },
  { id: { 4: '3.1.4-1', 5: '3.1.4-1' }, what: 'bytes after the last field', first: connect({ rest: Buffer.from([0]) }), answer: closed },
  { id: { 4: '3.1.4-2', 5: '3.1.4-3' }, what: 'take-over', shown: ['connect', 'the same client id of the same thing takes over'] },
  {
    id: { 4: '3.1.4-5', 5: '3.1.4-6' },
    what: 'packets after a refused CONNECT are not handled',
    first: version => Buffer.concat([connect({ user: 'x' })(version), publish(0x32)(version)]),
    answer: { 4: '20 02 00 04', 5: '20 .. .. 00 86' },
  },
  // CONNACK
  { id: both('3.2.0-1'), what: 'the first answer is a CONNACK', shown: ['connect', 'a client of MQTT 5 gets what the server accepts'] },
  {
    id: { 4: '3.2.2-4', 5: '3.2.2-6' },
    what: 'a refusal has no session',
    first: connect({ user: 'x' }),
    answer: { 4: '20 02 00', 5: '20 .. .. 00' },
  },
  {
    id: { 4: '3.2.2-5', 5: '3.2.2-7' },
    what: 'after a refusal the connection is closed',
    shown: ['connect', ': %s is refused, and the connection closed'],
  },
  { id: { 5: '3.2.2-11' }, what: 'a message above the maximum QoS', not: 'all are accepted' },
  { id: { 5: '3.2.2-12' }, what: 'a will above the maximum QoS', not: 'all are accepted' },
  // PUBLISH
  { id: both('3.3.1-2'), what: 'QoS 0, marked as sent again', after: publish(0x38), answer: malformed },
  { id: both('3.3.1-4'), what: 'QoS 3', after: publish(0x36), answer: malformed },
  { id: { 4: '3.3.1-3' }, what: 'DUP of a message that is passed on', not: 'no message is passed on' },
  {
    id: { 4: '3.3.2-1', 5: '3.3.2-1' },
    what: 'a topic that is longer than the packet',
    after: () => packet(0x30, 0, 200, 'a'),
    answer: malformed,
  },
  {
    id: both('3.3.2-2'),
    what: 'a topic with a wildcard',
    after: publish(0x30, { topic: `${topic}/#` }),
    answer: { 4: 'closed', 5: 'e0 90' },
  },
  { id: { 5: '3.3.2-8' }, what: 'topic alias 0', after: publish(0x30, { properties: [0x23, 0, 0] }), answer: { 5: 'e0 94' } },
  { id: { 5: '3.3.2-9' }, what: 'a topic alias above the maximum', shown: ['publish', 'a topic alias %s ends the connection'] },
  { id: { 5: '3.3.2-7' }, what: 'aliases of another connection', not: 'they are kept with the connection' },
  { id: { 5: '3.3.2.3' }, what: 'an unknown property', after: publish(0x30, { properties: [0x7f] }), answer: { 5: 'e0 81' } },
  {
    id: { 5: '3.3.2.3' },
    what: 'a property that ends early',
    after: publish(0x30, { properties: [0x03, 0, 9, 0x61] }),
    answer: { 5: 'e0 81' },
  },
  { id: { 5: '3.3.2-4' }, what: 'a payload format indicator that is wrong', not: 'the payload is decoded by its content type' },
  {
    id: { 5: '3.3.4-6' },
    what: 'a subscription identifier of a client',
    after: () => packet(0x30, text(topic), 2, 0x0b, 1, payload),
    answer: { 5: 'e0 82' },
  },
  {
    id: { 5: '3.1.2.11.3' },
    what: 'a Receive Maximum of 0',
    first: version => connect({ own: properties(version, 0x21, 0, 0) })(version),
    answer: { 5: 'closed' },
  },
  {
    id: { 5: '3.8.2.1.2' },
    what: 'a subscription identifier of 0',
    after: () => packet(0x82, 0, 1, 2, 0x0b, 0, text(topic), 0),
    answer: { 5: 'e0 82' },
  },
  {
    id: { 4: '3.3.4-1', 5: '3.3.4-1' },
    what: 'QoS 1 is answered with a PUBACK, QoS 0 with nothing',
    after: version => Buffer.concat([publish(0x30)(version), ping()]),
    answer: { 4: 'd0 00', 5: 'd0 00' },
  },
  {
    id: { 5: '3.3.4-9' },
    what: 'more messages than the Receive Maximum',
    shown: ['publish', 'MQTT 5: more unacknowledged messages than the Receive Maximum'],
  },
  {
    id: { 4: '4.3.2-2', 5: '4.3.2-4' },
    what: 'a PUBACK only when the message is owned',
    shown: ['publish', 'a message is acknowledged after the log has it'],
  },
  {
    id: { 4: '4.6.0-2', 5: '4.6.0-2' },
    what: 'PUBACKs in the order of their PUBLISHes',
    shown: ['publish', 'messages are acknowledged in the order of arrival'],
  },
  {
    id: { 4: '4.3.3-2', 5: '4.3.3-8' },
    what: 'QoS 2: a PUBREC when the message is owned, and one for each that has its packet id until the PUBREL (MQTT 5: -10, and -12 after it)',
    shown: ['exactly-once', ': what is sent again is stored once, until its PUBREL, and then the id is free'],
  },
  {
    id: { 5: '4.3.3-9' },
    what: 'the id of a refused message is free',
    shown: ['exactly-once', 'a refused message is not stored, and its id is free'],
  },
  {
    id: { 4: '4.3.3-2', 5: '4.3.3-11' },
    what: 'a PUBREL is answered with a PUBCOMP',
    after: () => packet(0x62, 0, 9),
    answer: { 4: '70 02 00 09', 5: '70 04 00 09 92 00' },
  },
  { id: both('3.6.1-1'), what: 'the reserved bits of PUBREL', after: () => packet(0x60, 0, 9), answer: malformed },
  {
    id: { 4: '4.3.3-1', 5: '4.3.3-4' },
    what: 'QoS 2 to a subscriber: a PUBREL for its PUBREC, and no PUBLISH after it (MQTT 5: -1 to -6)',
    shown: ['exactly-once', ': a subscriber gets a message once, in the steps of QoS 2'],
  },
  // PINGREQ, DISCONNECT, AUTH, and what a server sends
  { id: both('3.12.4-1'), what: 'PINGREQ', after: ping, answer: { 4: 'd0 00', 5: 'd0 00' } },
  {
    id: { 4: '3.14.4-3', 5: '3.14.4-3' },
    what: 'DISCONNECT removes the will',
    shown: ['publish', ': the will is published when the connection breaks'],
  },
  {
    id: { 5: '3.14.2.1' },
    what: 'DISCONNECT with a reason publishes the will',
    shown: ['publish', 'MQTT 5: a DISCONNECT with reason code %i publishes the will'],
  },
  { id: { 5: '3.14.2-1' }, what: 'a reason code that DISCONNECT has not', after: () => packet(0xe0, 0x03), answer: { 5: 'e0 81' } },
  {
    id: { 5: '3.14.2-2' },
    what: 'a session that begins to last with the DISCONNECT',
    shown: ['sessions', 'a DISCONNECT does not begin a session that was to end'],
  },
  { id: { 5: '3.15.1-1' }, what: 'AUTH without enhanced authentication', after: () => packet(0xf0), answer: { 5: 'e0' } },
  { id: { 4: '2.2.1' }, what: 'the reserved type 15', after: () => packet(0xf0), answer: { 4: 'closed' } },
  { id: { 4: '2.2.1', 5: '2.1.2' }, what: 'the reserved type 0', after: () => packet(0x00), answer: malformed },
  {
    id: { 4: '4.8.0-1', 5: '4.13.1-1' },
    what: 'a SUBACK of a client',
    after: version => packet(0x90, 0, 1, none(version), 0),
    answer: wrong,
  },
  // Sessions
  {
    id: { 4: '3.1.2-4', 5: '3.1.2-5' },
    what: 'a session that goes on, and that CONNACK says so (3.2.2-2, 3.2.2-3)',
    shown: ['sessions', 'version %i: a session goes on behind what was acknowledged, and repeats are marked'],
  },
  {
    id: { 4: '3.1.2-5', 5: '3.1.2-23' },
    what: 'what is kept after the connection',
    shown: ['sessions', 'UNSUBSCRIBE and the options of a subscription are kept'],
  },
  {
    id: { 4: '4.4.0-1', 5: '4.4.0-1' },
    what: 'what was not acknowledged is sent again',
    shown: ['sessions', 'version %i: a session goes on behind what was acknowledged, and repeats are marked'],
  },
  {
    id: { 4: '4.4.0-1', 5: '4.4.0-1' },
    what: 'with its packet id, from its step on',
    shown: ['exactly-once', ': after %s each message goes on at its step, under its packet id'],
  },
  // Retained messages
  {
    id: { 4: '3.1.2-17', 5: '3.1.2-15' },
    what: 'a will to be retained is, and another is not (3.1.1: -16, 5: -14)',
    shown: ['retained', 'version %i: a will is retained, or not'],
  },
  { id: { 5: '3.2.2-13' }, what: 'a will to be retained without retained messages (-14: a message)', not: 'they are always available' },
  {
    id: both('3.3.1-5'),
    what: 'the newest one is kept, also one of QoS 0 (3.1.1: -7), and one without the flag changes nothing (3.1.1: -12, 5: -8)',
    shown: ['retained', 'version %i: the newest message of each topic is sent after the SUBACK, with the flag'],
  },
  {
    id: { 4: '3.3.1-6', 5: '3.8.4-4' },
    what: 'it is sent for a new subscription, with the flag (3.1.1: 3.3.1-8), and without it what is live (3.1.1: 3.3.1-9)',
    shown: ['retained', 'version %i: the newest message of each topic is sent after the SUBACK, with the flag'],
  },
  {
    id: { 4: '3.3.1-11', 5: '3.3.1-6' },
    what: 'an empty one clears it, and is not kept (5: -7)',
    shown: ['retained', 'version %i: an empty message with the flag clears what is kept'],
  },
  { id: { 4: '3.3.1-10' }, what: 'an empty one is sent to subscribers', not: 'it is not in the log (docs/limits.md)' },
  {
    id: { 5: '3.3.1-9' },
    what: 'retain handling 0, 1 (-10) and 2 (-11)',
    shown: ['retained', 'retain handling %i: a SUBSCRIBE is answered with'],
  },
  {
    id: { 5: '3.3.1-12' },
    what: 'retain as published 0 and 1 (-13)',
    shown: ['subscribe', 'retain as published with QoS %i: messages have the flag that they had'],
  },
  {
    id: { 4: '3.8.4-6', 5: '3.8.4-8' },
    what: 'the QoS of a retained message',
    shown: ['retained', 'published with QoS %i and granted %i it is sent with QoS %i'],
  },
  // SUBSCRIBE and UNSUBSCRIBE
  {
    id: { 4: '3.8.3-3', 5: '3.8.3-2' },
    what: 'a SUBSCRIBE without a filter',
    shown: ['connect', 'MQTT version %i: a SUBSCRIBE or UNSUBSCRIBE without a filter'],
  },
  {
    id: { 4: '3.8.4-1', 5: '3.8.4-1' },
    what: 'SUBACK, with the packet id and a code for each filter (-2, -5 and -6)',
    shown: ['subscribe', 'the filter %s matches the subtopics %j'],
  },
  {
    id: { 4: '3.8.4-3', 5: '3.8.4-3' },
    what: 'a filter that was sent before',
    shown: ['subscribe', 'a filter that is sent again takes the place of the one before'],
  },
  {
    id: { 4: '3.8.4-6', 5: '3.8.4-7' },
    what: 'the granted QoS',
    shown: ['subscribe', 'version %i: messages of all protocols arrive as they are in the log, with the granted QoS'],
  },
  { id: { 5: '3.8.3-3' }, what: 'no local', shown: ['subscribe', 'no local leaves out what the thing itself published'] },
  { id: { 5: '3.8.3-4' }, what: 'no local in a shared subscription', shown: ['groups', 'no local is a protocol error'] },
  {
    id: { 5: '4.8.2-1' },
    what: 'a share name, without /, + and # (-2)',
    shown: ['subscribe', 'the filter %s is refused with %i'],
  },
  {
    id: { 5: '4.8.2-3' },
    what: 'the granted QoS of a shared subscription',
    shown: ['groups', 'QoS %i is granted with at most 1, and may be changed'],
  },
  { id: { 5: '4.8.2-4' }, what: 'a shared message of QoS 2 that was begun (-5)', not: 'they are granted with QoS 1 (docs/limits.md)' },
  {
    id: { 5: '4.8.2-6' },
    what: 'a shared message that its client refuses',
    shown: ['groups', 'a message that its client refuses goes to no other'],
  },
  {
    id: { 5: '3.3.4-3' },
    what: 'subscription identifiers, one or several (-4)',
    shown: ['subscribe', 'a message that matches several filters is sent once, with the highest QoS and the ids of all'],
  },
  {
    id: { 5: '3.3.4-9' },
    what: 'the Receive Maximum of the client',
    shown: ['subscribe', 'no more are unacknowledged than the client allows'],
  },
  {
    id: { 5: '3.1.2-24' },
    what: 'the Maximum Packet Size of the client (-25)',
    shown: ['subscribe', 'what is larger than the client takes is left out'],
  },
  {
    id: { 4: '3.10.4-4', 5: '3.10.4-4' },
    what: 'UNSUBACK, also for filters that were not there (-5), after which nothing is sent (-2)',
    shown: ['subscribe', 'a filter that is sent again takes the place of the one before, and after UNSUBSCRIBE nothing arrives'],
  },
  {
    id: { 4: '4.7.1-2', 5: '4.7.1-1' },
    what: '# alone at the end, and + alone (-3)',
    shown: ['subscribe', 'the filter %s is refused with %i'],
  },
  {
    id: { 4: '4.6.0-6', 5: '4.6.0-6' },
    what: 'the order of the messages of a topic',
    shown: ['subscribe', 'no more are unacknowledged than the client allows'],
  },
  {
    id: { 4: '3.8.3-4', 5: '3.8.3-5' },
    what: 'reserved bits of a subscription',
    after: version => packet(0x82, 0, 1, none(version), text('a'), 0xc0),
    answer: malformed,
  },
  // WebSocket
  { id: both('6.0.0-1'), what: 'binary frames only', shown: ['web-socket', 'a frame of text closes the connection'] },
  { id: both('6.0.0-2'), what: 'packets and frames are divided differently', shown: ['web-socket', 'packets may be divided among frames'] },
  { id: both('6.0.0-3'), what: 'a client offers the subprotocol', shown: ['web-socket', 'a client that does not offer MQTT is refused'] },
  { id: both('6.0.0-4'), what: 'the subprotocol that is selected', shown: ['web-socket', 'packets may be divided among frames'] },
]

const cases = statements.flatMap(statement =>
  ([4, 5] as const)
    .filter(version => statement.id[version] !== undefined)
    .map(version => ({ ...statement, version, name: `[MQTT-${statement.id[version]}]` })),
)

test.each(cases.filter(({ first, after }) => first !== undefined || after !== undefined))(
  'MQTT version $version, $name: $what',
  async ({ version, first = connect(), after, answer }) => {
    const site = await openSite()
    const client = await openClient(site.port, version)
    const received: Buffer[] = []
    client.socket.on('data', (chunk: Buffer) => received.push(chunk))
    client.socket.write(first(version))
    if (after !== undefined) {
      expect(await client.next()).toMatchObject({ cmd: 'connack' })
      received.length = 0
      client.socket.write(after(version))
    }
    const wanted = answer![version]!
    if (!/^[cd47]/.test(wanted) || wanted === 'closed') await client.rest()
    else await client.next()
    const bytes = Buffer.concat(received)
    // Of a DISCONNECT the head, and the reason after its length.
    const found = bytes[0] === 0xe0 ? [bytes[0], bytes[2]!] : [...bytes]
    const hex = found.map(byte => byte.toString(16).padStart(2, '0')).join(' ')
    if (wanted === 'closed') expect(hex).toBe('')
    else expect(hex).toMatch(new RegExp(`^${wanted}`))
  },
)

test('the tests that show the other statements exist, and the rest says why none does', () => {
  const sources = new Map<string, string>()
  const sourceOf = (file: string): string => {
    const source = sources.get(file) ?? readFileSync(new URL(`${file}.test.ts`, import.meta.url), 'utf8')
    sources.set(file, source)
    return source
  }
  for (const { first, after, answer, shown, not, what } of statements) {
    expect(
      [first ?? after, shown, not].filter(way => way !== undefined),
      what,
    ).toHaveLength(1)
    expect(answer === undefined, what).toBe((first ?? after) === undefined)
    if (shown !== undefined) expect(sourceOf(shown[0]), what).toContain(shown[1])
  }
})
