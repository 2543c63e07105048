// Bytes of any kind on the port of MQTT: packets are found however they are cut, and hostile ones end their connection alone.

import { connect as connectSocket } from 'node:net'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import * as fc from 'fast-check'
import { generate, type IPublishPacket } from 'mqtt-packet'
import { expect, test } from 'vitest'
import { decode, encode, openFrames } from '../../../pipeline/mqtt/packets.ts'
import { PacketError } from '../../../pipeline/mqtt/reasons.ts'
import { channel, key } from '../ingest/site.ts'
import { connectPacket } from './client.ts'
import { openSite, pack, payloadBytesMax } from './site.ts'

const topic = `channels/${channel}/messages`
const publish: IPublishPacket = { cmd: 'publish', qos: 1, dup: false, retain: false, messageId: 9, topic, payload: pack }

test('packets are found wherever the stream is cut', () => {
  const lengths = fc.array(fc.integer({ min: 0, max: 20_000 }), { minLength: 1, maxLength: 6 })
  const cuts = fc.array(fc.integer({ min: 1, max: 5_000 }), { minLength: 1, maxLength: 20 })
  fc.assert(
    fc.property(lengths, cuts, (payloads, cuts) => {
      const packets = payloads.map(length => encode({ ...publish, payload: Buffer.alloc(length, 'a') }, 5))
      const bytes = Buffer.concat(packets)
      const frames = openFrames()
      const found: Buffer[] = []
      for (let at = 0, cut = 0; at < bytes.length; cut++) {
        const end = at + cuts[cut % cuts.length]!
        frames.push(bytes.subarray(at, end))
        at = end
        for (let frame = frames.next(30_000); frame !== undefined; frame = frames.next(30_000)) found.push(Buffer.from(frame))
      }
      expect(found).toEqual(packets)
    }),
  )
})

test('a packet that is too large is refused when its length is known, before its bytes are there', () => {
  const frames = openFrames()
  frames.push(Buffer.from([0x30, 0xff, 0xff, 0xff, 0x7f]))
  expect(() => frames.next(1_000)).toThrow(/a packet has 268435460 bytes: at most 1000 are allowed/)
})

test('a length of more than four bytes is refused', () => {
  const frames = openFrames()
  frames.push(Buffer.from([0x30, 0xff, 0xff, 0xff, 0xff, 0x01]))
  expect(() => frames.next(1_000)).toThrow(/more than four bytes/)
})

test('segments of one byte are joined, so that few buffers wait', () => {
  const packet = encode({ ...publish, payload: Buffer.alloc(100_000, 'a') }, 5)
  const frames = openFrames()
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  collect()
  const before = process.memoryUsage().heapUsed
  for (const byte of packet.subarray(0, -1)) frames.push(Buffer.from([byte]))
  expect(frames.next(200_000)).toBeUndefined()
  collect()
  expect(process.memoryUsage().heapUsed - before).toBeLessThan(2_000_000)
  frames.push(packet.subarray(-1))
  expect(frames.next(200_000)).toEqual(packet)
})

test('a message is decoded as it was encoded, with and without properties', () => {
  const messages = fc.record({
    topic: fc.constantFrom(topic, 'channels/ø/messages', 'a'),
    payload: fc.uint8Array({ maxLength: 300 }).map(bytes => Buffer.from(bytes)),
    qos: fc.constantFrom(0 as const, 1 as const, 2 as const),
    messageId: fc.integer({ min: 1, max: 65_535 }),
    isAgain: fc.boolean(),
    retain: fc.boolean(),
    contentType: fc.constantFrom(undefined, 'application/json'),
  })
  fc.assert(
    fc.property(messages, fc.constantFrom(4 as const, 5 as const), ({ messageId, isAgain, contentType, ...rest }, version) => {
      const sent = version === 5 ? contentType : undefined
      const properties = sent === undefined ? {} : { properties: { contentType: sent } }
      const identified = rest.qos === 0 ? {} : { messageId }
      const packet: IPublishPacket = { cmd: 'publish', ...rest, dup: isAgain && rest.qos > 0, ...identified, ...properties }
      const { payload, ...found } = decode(encode(packet, version), version) as IPublishPacket
      expect({ ...found, payload: Buffer.from(payload) }).toMatchObject(packet)
      expect(found.properties?.contentType).toBe(sent)
    }),
  )
})

test('decoding any packet returns one or throws a PacketError, and the next packet is decoded as ever', () => {
  const good = encode(publish, 5)
  fc.assert(
    fc.property(
      fc.integer({ min: 0, max: 255 }),
      fc.uint8Array({ maxLength: 127 }),
      fc.constantFrom(4 as const, 5 as const),
      (head, body, version) => {
        try {
          decode(Buffer.from([head, body.length, ...body]), version)
        } catch (error) {
          if (!(error instanceof PacketError)) throw error
        }
        expect(decode(good, 5)).toMatchObject({ cmd: 'publish', messageId: 9, topic })
      },
    ),
    { numRuns: 2_000 },
  )
})

test('random bytes, before and after the CONNECT, end their connection, and others continue', async () => {
  const site = await openSite({ thingConnectionsMax: 100 })
  const other = await site.connect(5, { clientId: 'other' })
  const connects = ([4, 5] as const).map(version =>
    generate(connectPacket(version, { clientId: 'hostile', username: '', password: Buffer.from(key) }), { protocolVersion: version }),
  )
  const before = fc.constantFrom(Buffer.alloc(0), ...connects)
  // Half of them begin like packets of clients.
  const known = fc.constantFrom(0x30, 0x32, 0x34, 0x40, 0x50, 0x62, 0x70, 0x82, 0xa2, 0xc0, 0xe0, 0xf0)
  const packet = fc.tuple(fc.oneof(fc.integer({ min: 0, max: 255 }), known), fc.uint8Array({ maxLength: 100 }))
  await fc.assert(
    fc.asyncProperty(before, fc.array(packet, { minLength: 1, maxLength: 5 }), async (connect, packets) => {
      const socket = connectSocket(site.port, '127.0.0.1')
      // The server may reset it.
      socket.on('error', () => undefined)
      const closed = new Promise<void>(resolve => void socket.once('close', () => resolve()))
      const bytes = packets.map(([head, body]) => Buffer.from([head, body.length, ...body]))
      socket.resume().end(Buffer.concat([connect, ...bytes]))
      await closed
      other.send({ cmd: 'pingreq' })
      expect(await other.next()).toMatchObject({ cmd: 'pingresp' })
    }),
    { numRuns: 200 },
  )
  other.send(publish)
  expect(await other.next()).toMatchObject({ cmd: 'puback', reasonCode: 0 })
  expect(site.said.filter(line => line.includes('failed') || line.includes('cannot'))).toEqual([])
})

test('a packet above the advertised size ends the connection', async () => {
  const site = await openSite()
  const client = await site.connect(5)
  client.send({ ...publish, payload: Buffer.alloc(payloadBytesMax + 16_385) })
  expect(await client.rest()).toMatchObject([{ cmd: 'disconnect', reasonCode: 0x95 }])
})

test('a packet without a message is bounded, and so are the properties of a PUBLISH', () => {
  const frames = openFrames()
  // A SUBSCRIBE of 16,384 bytes.
  frames.push(Buffer.from([0x82, 0xfd, 0x7f]))
  expect(frames.next(1_000_000)).toBeUndefined()
  const larger = openFrames()
  larger.push(Buffer.from([0x82, 0x80, 0x80, 0x01]))
  expect(() => larger.next(1_000_000)).toThrow(/at most 16384/)
  const userProperties = Object.fromEntries(Array.from({ length: 2_000 }, (_, at) => [`${at}`, 'a']))
  expect(() => decode(encode({ ...publish, properties: { userProperties } }, 5), 5)).toThrow(/properties of a packet have \d+ bytes/)
})

test.each([
  ['puback', '40020001'],
  ['pubrec', '50020001'],
  ['pubrel', '62020001'],
  ['pubcomp', '70020001'],
] as const)('a %s without a reason has the short form, which some clients of MQTT 5 need', (cmd, bytes) => {
  for (const version of [4, 5] as const) expect(encode({ cmd, messageId: 1, reasonCode: 0 }, version).toString('hex')).toBe(bytes)
  expect(encode({ cmd, messageId: 1, reasonCode: 0x92 }, 5)).toHaveLength(6)
})
