// What the broker by `@platformatic/kafka` adds to the client: times of its own for each request, and connections apart.

import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import * as client from '@platformatic/kafka'
import { expect, test } from 'vitest'
import { metadataRequest } from '../../../pipeline/kafka/consumer/metadata-request.ts'
import { type Line, openLine, sendOn } from '../../../pipeline/kafka/platformatic/line.ts'
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
