// What the broker by `@platformatic/kafka` adds to the client: times of its own for each request, and connections apart.

import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import * as client from '@platformatic/kafka'
import { expect, test } from 'vitest'
import type { BrokerError, Joined, KafkaBroker } from '../../../pipeline/kafka/consumer/broker.ts'
import { metadataRequest } from '../../../pipeline/kafka/consumer/metadata-request.ts'
import { connectWithPlatformatic } from '../../../pipeline/kafka/platformatic/broker.ts'
import { type Line, openLine, sendOn } from '../../../pipeline/kafka/platformatic/line.ts'
import { describeWithKafka } from '../../servers/kafka.ts'
import { connectionTo } from './source-parts.ts'

/** A server that does with a connection what it is told, and a line to it. */
async function withServer(serve: (socket: Socket) => void, work: (line: Line) => Promise<void>): Promise<void> {
  const server = createServer(socket => {
    socket.on('error', () => undefined)
    serve(socket)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const line = openLine(client, connectionTo([`127.0.0.1:${port}`]), { host: '127.0.0.1', port })
  try {
    await work(line)
  } finally {
    line.end()
    server.close()
  }
}

const ask = (line: Line, timeoutMs: number) => line.ask(timeoutMs, connection => sendOn(client, connection, metadataRequest('t')))

test('an answer that does not come in its time ends the line, and the failure says so', () =>
  withServer(
    () => undefined,
    async line => {
      expect(line.isWhole()).toBe(true)
      await expect(ask(line, 100)).rejects.toThrow(/has not answered for 100 ms/)
      expect(line.isWhole()).toBe(false)
      await expect(ask(line, 100)).rejects.toThrow(Error)
    },
  ))

test('an answer to nothing that was asked fails the request, and does not end the process', () =>
  withServer(
    socket => socket.once('data', () => socket.write(Buffer.from([0, 0, 0, 8, 0x7f, 1, 2, 3, 0, 0, 0, 0]))),
    async line => {
      await expect(ask(line, 2000)).rejects.toThrow(/closed/i)
      expect(line.isWhole()).toBe(false)
    },
  ))

test('a connection that the broker ends is seen before it is asked again', () => {
  const sockets: Socket[] = []
  return withServer(
    socket => {
      sockets.push(socket)
      socket.once('data', () => socket.write(Buffer.from([0, 0, 0, 4, 0, 0, 0, 1])))
    },
    async line => {
      await expect(ask(line, 2000)).rejects.toThrow(/out of bounds/i)
      sockets[0]!.destroy()
      await expect.poll(() => line.isWhole()).toBe(false)
    },
  )
})

test('a line that was ended opens no connection', () =>
  withServer(
    () => expect.unreachable(),
    async line => {
      line.end()
      await expect(ask(line, 1000)).rejects.toThrow(/given up/)
    },
  ))

describeWithKafka('a broker by @platformatic/kafka', kafka => {
  const protocol = 'roundrobin'
  const [sessionMs, rebalanceMs] = [6000, 6000]
  const rebalancing = 27

  function open(): Promise<KafkaBroker> {
    const [host, port] = kafka.brokers[0]!.split(':') as [string, string]
    return connectWithPlatformatic(connectionTo(kafka.brokers))({ host, port: Number(port) })
  }

  test('a commit is answered while the group waits for a member to join again', async () => {
    const topic = await kafka.createTopic()
    const group = `group-${topic}`
    const [first, second] = await Promise.all([open(), open()])
    const join = (broker: KafkaBroker, memberId = ''): Promise<Joined> =>
      broker.join({ group, memberId, sessionMs, rebalanceMs, protocol, metadata: Buffer.from('any') })
    const sync = (broker: KafkaBroker, { memberId, generation }: Joined): Promise<Buffer> =>
      broker.sync({ group, memberId, generation, protocol, rebalanceMs, assignments: new Map() })
    const untilRebalancing = (broker: KafkaBroker, { memberId, generation }: Joined): Promise<void> =>
      expect
        .poll(() =>
          broker.heartbeat({ group, memberId, generation }).then(
            () => 0,
            (error: BrokerError) => error.apiCode,
          ),
        )
        .toBe(rebalancing)

    // The first use of groups on a broker takes a while.
    let alone: Joined | undefined
    async function joinFirst(): Promise<boolean> {
      await first.coordinatorOf(group).catch(() => undefined)
      alone = await join(first).catch(() => undefined)
      return alone !== undefined
    }
    await expect.poll(joinFirst, { timeout: 15_000 }).toBe(true)
    await sync(first, alone!)
    const joining = join(second)
    await untilRebalancing(first, alone!)
    const [one, other] = await Promise.all([join(first, alone!.memberId), joining])
    await Promise.all([sync(first, one), sync(second, other)])

    let isJoined = false
    const waiting = join(first, one.memberId).finally(() => {
      isJoined = true
    })
    await untilRebalancing(second, other)
    await first.commit({ group, memberId: one.memberId, generation: one.generation }, topic, new Map([[0, 7]]))
    expect(await first.committed(group, topic, [0])).toEqual(new Map([[0, 7]]))
    expect(isJoined).toBe(false)
    await second.leave(group, other.memberId)
    expect((await waiting).generation).toBe(one.generation + 1)
    for (const broker of [first, second]) broker.end()
  })
})
