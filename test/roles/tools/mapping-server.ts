// A small strict provisioning service: POST /mapping as the platform answers it, of what it was asked, and what a test lets it answer otherwise.

import { randomUUID } from 'node:crypto'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { onTestFinished } from 'vitest'

export interface Mapping {
  readonly external_id: string
  readonly external_key: string
  readonly name?: string
}

export interface Answer {
  readonly status: number
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: unknown
}

/** What a provisioning service is to the tests of `sluice provision`: another one takes this one's place by the same members. */
export interface MappingServer {
  readonly url: string
  readonly token: string
  /** Made so far, by external id. */
  readonly made: ReadonlyMap<string, Mapping>
  /** In the order of their arrival, also those of dry runs and those that were not answered. */
  readonly asked: Mapping[]
  /** What stands in the way of an answer; undefined for none, `break` for a connection that breaks. */
  hinder?: (mapping: Mapping, nth: number) => Answer | 'break' | undefined | Promise<Answer | undefined>
}

export async function openMappingServer(): Promise<MappingServer> {
  const made = new Map<string, Mapping & { things: unknown }>()
  const asked: Mapping[] = []
  const token = 'a.user.token'

  async function answerTo(request: IncomingMessage): Promise<Answer | 'break'> {
    const url = new URL(request.url!, 'http://localhost')
    const refused = (status: number, detail: string): Answer => ({ status, body: { error: 'refused', code: 'c', status, detail } })
    if (request.method !== 'POST' || url.pathname !== '/mapping') return refused(404, 'there is no such route')
    if (request.headers.authorization !== `Bearer ${token}`) return refused(401, 'the token is unknown')
    if (request.headers['content-type'] !== 'application/json') return refused(415, 'send JSON')
    const body = JSON.parse((await request.toArray()).join('')) as Mapping
    const unknown = Object.keys(body).filter(name => !['external_id', 'external_key', 'name'].includes(name))
    if (unknown.length > 0 || typeof body.external_id !== 'string' || typeof body.external_key !== 'string')
      return refused(400, 'malformed')
    asked.push(body)
    const hindered = await server.hinder?.(body, asked.length)
    if (hindered !== undefined) return hindered
    if (body.external_key.length < 8) return refused(400, '/body/external_key has fewer than 8 bytes')
    const before = made.get(body.external_id)
    if (before !== undefined && before.external_key !== body.external_key) return refused(409, 'this external id has another key')
    const things = before?.things ?? [
      { id: randomUUID(), key: randomUUID(), name: body.name ?? 'thing', metadata: { external_id: body.external_id } },
    ]
    const isDryRun = url.searchParams.get('dry_run') === 'true'
    if (isDryRun) {
      const planned = before === undefined ? [{ name: body.name ?? 'thing', metadata: { external_id: body.external_id } }] : []
      return { status: 200, body: { things: planned, channels: [] } }
    }
    made.set(body.external_id, { ...body, things })
    return { status: before === undefined ? 201 : 200, body: { things, channels: [], whitelisted: {} } }
  }

  const listener = createServer((request, response) => {
    void answerTo(request).then(answer => {
      if (answer === 'break') request.socket.destroy()
      else
        response.writeHead(answer.status, { 'content-type': 'application/json', ...answer.headers }).end(JSON.stringify(answer.body ?? {}))
    })
  })
  await new Promise<void>(resolve => listener.listen(0, '127.0.0.1', resolve))
  onTestFinished(async () => {
    listener.closeAllConnections()
    await new Promise(resolve => listener.close(resolve))
  })
  const server: MappingServer = { url: `http://127.0.0.1:${(listener.address() as AddressInfo).port}`, token, made, asked }
  return server
}
