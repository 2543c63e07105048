// A small strict provisioning service: POST /mapping with the platform's answers, a record of the requests, and faults that a test adds.

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

/** What tests of `sluice provision` need of a provisioning service; another one can replace it. */
export interface MappingServer {
  readonly url: string
  readonly token: string
  /** Created so far, by external id. */
  readonly made: ReadonlyMap<string, Mapping>
  /** In order of arrival, without dry runs, including unanswered ones. */
  readonly asked: Mapping[]
  /** Name of a further thing in each mapping, with a certificate whose private key is only in the first answer. */
  certified?: string
  /** A fault in place of an answer, except for dry runs; undefined for none, `break` for a broken connection. */
  hinder?: (mapping: Mapping, nth: number) => Answer | 'break' | undefined | Promise<Answer | undefined>
}

export async function openMappingServer(): Promise<MappingServer> {
  const made = new Map<string, Mapping & { things: { id: string }[] }>()
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
    const isDryRun = url.searchParams.get('dry_run') === 'true'
    if (!isDryRun) asked.push(body)
    const hindered = isDryRun ? undefined : await server.hinder?.(body, asked.length)
    if (hindered !== undefined) return hindered
    if (body.external_key.length < 8) return refused(400, '/body/external_key has fewer than 8 bytes')
    const before = made.get(body.external_id)
    if (before !== undefined && before.external_key !== body.external_key) return refused(409, 'this external id has another key')
    const { certified } = server
    const planned = [
      { name: body.name ?? 'thing', metadata: { external_id: body.external_id } },
      ...(certified ? [{ name: certified }] : []),
    ]
    const things = before?.things ?? planned.map(thing => ({ id: randomUUID(), key: randomUUID(), ...thing }))
    if (isDryRun) {
      const shownOnce = certified === undefined ? {} : { keys_shown_once: [certified] }
      return { status: 200, body: { things: before === undefined ? planned : [], channels: [], ...shownOnce } }
    }
    made.set(body.external_id, { ...body, things })
    const { id = '' } = things[1] ?? {}
    const certificate = certified === undefined ? {} : { client_cert: { [id]: `a certificate\nof ${id}` } }
    const key = certified === undefined || before !== undefined ? {} : { client_key: { [id]: `a private key\nof ${id}` } }
    return { status: before === undefined ? 201 : 200, body: { things, channels: [], whitelisted: {}, ...certificate, ...key } }
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
