// Our use of the client's connections: a time limit for each request, fetches, and brokers that are too old.

import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { metadataV12, Writer } from '@platformatic/kafka'
import { expect, test } from 'vitest'
import { connectBrokers } from '../../../../pipeline/kafka/client/broker.ts'
import { fetchOn } from '../../../../pipeline/kafka/client/fetch.ts'
import { type Line, openLine } from '../../../../pipeline/kafka/client/line.ts'
import { logPartition } from '../../../../transformers/log-partition.ts'
import { connectionTo } from '../consumer/source-parts.ts'

/** A server that handles connections with `serve`, and a line to it. */
async function withServer(serve: (socket: Socket) => void, work: (line: Line, port: number) => Promise<void>): Promise<void> {
  const server = createServer(socket => {
    socket.on('error', () => undefined)
    serve(socket)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const line = openLine(connectionTo([`127.0.0.1:${port}`]), { host: '127.0.0.1', port })
  try {
    await work(line, port)
  } finally {
    line.end()
    server.close()
  }
}

/** For requests that end otherwise. */
const patientMs = 60_000

const ask = (line: Line, timeoutMs: number) => line.ask(timeoutMs, connection => metadataV12.api.async(connection, ['t'], false, false))

test('an answer that is late closes the line, and the error says so', () =>
  withServer(
    () => undefined,
    async line => {
      expect(line.isWhole()).toBe(true)
      await expect(ask(line, 100)).rejects.toThrow(/has not answered for 100 ms/)
      expect(line.isWhole()).toBe(false)
      await expect(ask(line, 100)).rejects.toThrow(Error)
    },
  ))

test('an answer to no request fails the request, and does not end the process', () =>
  withServer(
    socket => socket.once('data', () => socket.write(Buffer.from([0, 0, 0, 8, 0x7f, 1, 2, 3, 0, 0, 0, 0]))),
    async line => {
      await expect(ask(line, patientMs)).rejects.toThrow(/closed/i)
      expect(line.isWhole()).toBe(false)
    },
  ))

test('a connection closed by the broker is detected before the next request', () => {
  const sockets: Socket[] = []
  return withServer(
    socket => {
      sockets.push(socket)
      socket.once('data', () => socket.write(Buffer.from([0, 0, 0, 4, 0, 0, 0, 1])))
    },
    async line => {
      await expect(ask(line, patientMs)).rejects.toThrow(/out of bounds/i)
      sockets[0]!.destroy()
      await expect.poll(() => line.isWhole()).toBe(false)
    },
  )
})

test('a closed line opens no connection', () =>
  withServer(
    () => expect.unreachable(),
    async line => {
      line.end()
      await expect(ask(line, patientMs)).rejects.toThrow(/was closed/)
    },
  ))

const uuid = '01234567-89ab-cdef-0123-456789abcdef'
const request = { topicIds: [uuid], partitions: [{ at: logPartition(0, 1), offset: 5 }], waitMs: 1, bytesMax: 2, partitionBytesMax: 3 }

/** The answer to a fetch of two partitions, of which the first has an error; unknown tagged fields follow each part. */
function fetchAnswer(): Buffer {
  const writer = Writer.create().appendInt32(0).appendInt16(0).appendInt32(0)
  writer.appendArray([uuid], (to, id) => {
    to.appendUUID(id).appendArray(
      [0, 1],
      (to, partition) => {
        to.appendInt32(partition).appendInt16(partition === 0 ? 1 : 0)
        for (const end of [9n, 9n, 0n]) to.appendInt64(end)
        to.appendArray([77n], (to, producer) => to.appendInt64(producer).appendInt64(4n))
        to.appendInt32(-1).appendBytes(Buffer.of(1, 2))
        // One field with the number 9 and two bytes.
        to.append(Buffer.of(1, 9, 2, 0xff, 0xff))
      },
      true,
      false,
    )
  })
  return writer.appendTaggedFields().buffer
}

/** Answers the first request with these bytes. */
const answering = (bytes: Buffer) => (socket: Socket) =>
  socket.once('data', (request: Buffer) => {
    const head = Buffer.alloc(9)
    head.writeInt32BE(5 + bytes.length)
    request.copy(head, 4, 8, 12)
    socket.write(Buffer.concat([head, bytes]))
  })

test('a fetch in which one partition has an error is decoded, with the other partition', () =>
  withServer(answering(fetchAnswer()), async line => {
    const { partitions } = await line.ask(patientMs, connection => fetchOn(connection, request))
    expect(partitions.map(({ at, error, aborted, records }) => [at, error, aborted, [...records]])).toEqual([
      [0, 1, [{ producerId: 77, firstOffset: 4 }], [1, 2]],
      [1, 0, [{ producerId: 77, firstOffset: 4 }], [1, 2]],
    ])
  }))

const otherUuid = 'fedcba98-7654-3210-fedc-ba9876543210'

test('a fetch asks for the partitions of several topics in the order given, and tells the topics of the answer apart', async () => {
  const asked = Promise.withResolvers<Buffer>()
  const several = {
    ...request,
    topicIds: [otherUuid, uuid],
    partitions: [
      { at: logPartition(1, 0), offset: 5 },
      { at: logPartition(0, 7), offset: 6 },
      { at: logPartition(1, 1), offset: 7 },
    ],
  }
  await withServer(
    socket => {
      socket.once('data', (bytes: Buffer) => asked.resolve(bytes))
      answering(fetchAnswer())(socket)
    },
    async line => {
      const { partitions } = await line.ask(patientMs, connection => fetchOn(connection, several))
      expect(partitions.map(({ at }) => at)).toEqual([logPartition(1, 0), logPartition(1, 1)])
      const sent = (await asked.promise).toString('hex')
      const ids = [...sent.matchAll(/0123456789abcdef0123456789abcdef|fedcba9876543210fedcba9876543210/g)].map(([id]) => id)
      expect(ids).toEqual([uuid, otherUuid, uuid].map(id => id.replaceAll('-', '')))
    },
  )
})

test('a fetch that is cut off anywhere fails, and does not end the process', async () => {
  const answer = fetchAnswer()
  for (let length = 0; length < answer.length; length += 7) {
    await withServer(answering(answer.subarray(0, length)), async line => {
      await expect(line.ask(patientMs, connection => fetchOn(connection, request))).rejects.toThrow(Error)
    })
  }
})

/** A broker's answer to ApiVersions version 0: the highest version of each request, by its number. */
function knowing(highest: Readonly<Record<number, number>>): Buffer {
  const known = Object.entries(highest)
  const writer = Writer.create().appendInt16(0)
  writer.appendArray(known, (to, [key, max]) => to.appendInt16(Number(key)).appendInt16(0).appendInt16(max), false, false)
  return writer.buffer
}

/** Answers each request with the bytes, after a head without tagged fields. */
const answeringPlainly = (bytes: Buffer) => (socket: Socket) =>
  socket.on('data', (request: Buffer) => {
    const head = Buffer.alloc(8)
    head.writeInt32BE(4 + bytes.length)
    request.copy(head, 4, 8, 12)
    socket.write(Buffer.concat([head, bytes]))
  })

const [fetch, metadata, joinGroup] = [1, 3, 11]

test('a broker that does not identify topics by id is refused, and the error says what is needed', () =>
  withServer(answeringPlainly(knowing({ [fetch]: 12, [metadata]: 12 })), async (_, port) => {
    const address = { host: '127.0.0.1', port }
    await expect(connectBrokers(connectionTo([]))(address)).rejects.toThrow(/use Kafka 3\.1 or newer/)
  }))

test('a static member needs a broker that says whether it leads, and the error names the option', () =>
  withServer(answeringPlainly(knowing({ [fetch]: 13, [metadata]: 12, [joinGroup]: 8 })), async (_, port) => {
    const broker = await connectBrokers(connectionTo([]))({ host: '127.0.0.1', port })
    const member = { group: 'g', memberId: '', sessionMs: 1000, rebalanceMs: 1000, protocol: 'p', metadata: Buffer.alloc(0) }
    await expect(broker.join({ ...member, instance: 'plant-0' })).rejects.toThrow(
      /use Kafka 3\.2 or newer, or unset log\.instance \(SVC_LOG_INSTANCE\)/,
    )
    broker.end()
  }))
