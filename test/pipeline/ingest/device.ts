// A device over TLS, with or without a certificate, whose connection stays open between messages.

import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import type { request } from 'node:http'
import { Agent, request as requestTls } from 'node:https'
import { json } from 'node:stream/consumers'
import { setTimeout as wait } from 'node:timers/promises'
import type { TLSSocket } from 'node:tls'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished } from 'vitest'

export const fixturePath = (name: string): string =>
  fileURLToPath(new URL(`../../control-plane/internal/fixtures/${name}.pem`, import.meta.url))
/** As PEM. */
export const fixture = (name: string): string => readFileSync(fixturePath(name), 'utf8')

/** As PEM. */
export interface Shown {
  readonly cert: string
  readonly key: string
}
export type Headers = Readonly<Record<string, string>>

export interface Published {
  readonly status: number | undefined
  readonly detail: string
}

export interface Device {
  publish(headers?: Headers, channel?: string): Promise<Published>
  /** Publishes on a new connection, and closes it. Resolves with the status, and whether the TLS session was resumed. */
  publishAndClose(): Promise<[status: number | undefined, isResumed: boolean]>
  /** The open, idle connection. */
  socket(): TLSSocket
}

/** @param port of a server with the certificate of the fixtures */
export function openDevice(port: number, channel: string, shown: Shown | undefined): Device {
  const agent = new Agent({ keepAlive: true, maxSockets: 1, ca: fixture('ca'), ...shown })
  onTestFinished(() => agent.destroy())
  const socket = (): TLSSocket => Object.values(agent.freeSockets)[0]![0] as TLSSocket
  return {
    publish: (headers = {}, on = channel) => publish(requestTls, { port, agent }, on, headers),
    async publishAndClose() {
      const { status } = await publish(requestTls, { port, agent }, channel, {})
      const isResumed = socket().isSessionReused()
      await once(socket().destroy(), 'close')
      return [status, isResumed]
    },
    socket,
  }
}

export function publish(send: typeof request, options: object, channel: string, headers: Headers): Promise<Published> {
  const head = { path: `/channels/${channel}/messages`, headers: { 'content-type': 'application/senml+json', ...headers } }
  return new Promise((resolve, reject) => {
    const sent = send({ host: '127.0.0.1', method: 'POST', ...head, ...options })
    sent.on('error', reject).on('response', response => {
      json(response).then(body => resolve({ status: response.statusCode, detail: (body as { detail?: string }).detail ?? '' }), reject)
    })
    sent.end('[{"n":"t","v":1}]')
  })
}

/** The second is counted in timers of this process: time in which the whole machine stood still does not count. */
export async function endsWithinASecond(socket: Pick<TLSSocket, 'closed'>): Promise<void> {
  for (let centisecond = 0; centisecond < 100 && !socket.closed; centisecond++) await wait(10)
  expect(socket.closed).toBe(true)
}
