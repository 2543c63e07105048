// What a connection does when the server's sockets close at the wrong moment: against a server of the test's own, which answers `hello` and `ping` only.

import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { BSON } from 'mongodb'
import { expect, onTestFinished, test } from 'vitest'
import { openConnection } from '../../../sinks/mongodb/connection.ts'
import { optionsOf } from './store.ts'

const opReply = 1
const opMessage = 2013
const headerBytes = 16

/** The driver's first `hello` is an OP_QUERY, everything else an OP_MSG; each is answered in kind. */
function answerTo(request: Buffer, body: object): Buffer {
  const isMessage = request.readInt32LE(12) === opMessage
  const document = BSON.serialize({ ok: 1, ...body })
  const between = Buffer.alloc(isMessage ? 5 : 20)
  if (!isMessage) between.writeInt32LE(1, 16)
  const header = Buffer.alloc(headerBytes)
  header.writeInt32LE(headerBytes + between.length + document.length, 0)
  header.writeInt32LE(request.readInt32LE(4), 8)
  header.writeInt32LE(isMessage ? opMessage : opReply, 12)
  return Buffer.concat([header, between, document])
}

const hello = { isWritablePrimary: true, helloOk: true, minWireVersion: 0, maxWireVersion: 21, maxBsonObjectSize: 16_777_216 }

/** @param onPing false: the ping is not answered */
async function startServer(onPing: () => boolean) {
  const sockets = new Set<Socket>()
  const server = createServer(socket => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket)).on('error', () => undefined)
    let held = Buffer.alloc(0)
    socket.on('data', data => {
      held = Buffer.concat([held, data])
      while (held.length >= headerBytes && held.length >= held.readInt32LE(0)) {
        const request = held.subarray(0, held.readInt32LE(0))
        held = held.subarray(request.length)
        const isPing = request.includes('ping\0')
        if (!isPing || onPing()) socket.write(answerTo(request, isPing ? {} : hello))
      }
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return {
    url: `mongodb://127.0.0.1:${(server.address() as AddressInfo).port}/sluice`,
    endAll: () => sockets.forEach(socket => socket.end()),
  }
}

test('a server that closed all connections at once is found again', async () => {
  let pings = 0
  const asked = Promise.withResolvers<void>()
  const server = await startServer(() => {
    if (++pings === 1) asked.resolve()
    return pings > 1
  })
  const connection = await openConnection({ ...optionsOf(server.url), connectTimeoutMs: 5_000 }, 'test')
  onTestFinished(() => connection.close())
  await connection.connect()
  // The driver looks for the server at most twice a second.
  await new Promise(resolve => setTimeout(resolve, 600))
  const first = connection.command({ ping: 1 })
  await asked.promise
  server.endAll()
  await expect(first).rejects.toThrow(/closed/)
  expect(await connection.command({ ping: 1 })).toMatchObject({ ok: 1 })
})
