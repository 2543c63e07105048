// MQTT over WebSocket (MQTT 5 §6): a stream of packets in binary frames, however they are divided.

import type { IncomingMessage } from 'node:http'
import { Duplex } from 'node:stream'
import { WebSocket, WebSocketServer } from 'ws'
import { HttpError } from '../../http/errors.ts'
import type { WebSocketRequest } from '../../http/web-sockets.ts'
import { packetHeadBytesMax } from './well-formed.ts'

/** Called when it was closed for what the client did. */
type Failed = (sentence: string) => void
/** @param greeted to be called when its CONNECT has arrived */
type Opened = (stream: Duplex, greeted: () => void) => void

const protocol = 'mqtt'
/** The connection ended without a frame that closes it (RFC 6455 §7.1.5). */
const brokenCode = 1006

/** @throws HttpError if the client does not offer MQTT */
export function checkProtocol({ headers }: IncomingMessage): void {
  const offered = headers['sec-websocket-protocol']?.split(',') ?? []
  if (offered.some(name => name.trim() === protocol)) return
  throw new HttpError('malformed_request', `this WebSocket takes MQTT 3.1.1 and 5 only: offer the subprotocol ${protocol}`)
}

/** @param frameBytesMax of the largest message of frames, which is in memory as a whole */
export function openUpgrades(frameBytesMax: number): (request: WebSocketRequest, failed: Failed, opened: Opened) => void {
  const server = new WebSocketServer({
    noServer: true,
    clientTracking: false,
    maxPayload: frameBytesMax,
    handleProtocols: () => protocol,
  })
  return ({ request, socket, head }, failed, opened) =>
    server.handleUpgrade(request, socket, head, webSocket => {
      let bytes = 0
      // Before its CONNECT a client has no key, and may not fill the memory with a frame.
      const count = (chunk: Buffer): void => {
        if (bytes > packetHeadBytesMax) socket.destroy()
        bytes += chunk.length
      }
      socket.on('data', count)
      opened(streamOf(webSocket, failed), () => void socket.off('data', count))
    })
}

function streamOf(webSocket: WebSocket, failed: Failed): Duplex {
  // After its closing frame a client takes nothing more, and what it sent before is still read.
  function send(bytes: Buffer, done: (error?: Error | null) => void): void {
    if (webSocket.readyState === WebSocket.OPEN) webSocket.send(bytes, done)
    else done()
  }
  const stream = new Duplex({
    read: () => webSocket.resume(),
    write: (bytes: Buffer, _encoding, done) => send(bytes, done),
    writev: (chunks, done) => send(Buffer.concat(chunks.map(({ chunk }) => chunk as Buffer)), done),
    final(done) {
      webSocket.close()
      done()
    },
    destroy(error, done) {
      webSocket.terminate()
      done(error)
    },
  })
  webSocket.on('message', (bytes: Buffer, isBinary) => {
    if (isBinary) {
      if (!stream.push(bytes)) webSocket.pause()
      return
    }
    failed('a frame of text arrived, and MQTT has binary ones only')
    stream.destroy()
  })
  webSocket.on('error', error => {
    failed(error.message)
    stream.destroy()
  })
  webSocket.on('close', code => {
    if (code === brokenCode) stream.destroy()
    else stream.push(null)
  })
  return stream
}
