// Unexpected answers, as from another version or a wrong address: they are never a grant, and always an error.

import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { AccessUnavailableError } from '../../../control-plane/client.ts'
import { streamType } from '../../../control-plane/internal/wire.ts'
import { openRemoteAccess } from '../../../control-plane/remote/access.ts'
import { absentId, controlPlaneOutage, recordingLogger } from '../platform.ts'

/** Patient, because most tests are not about time limits. */
async function openAgainst(
  answer: (request: IncomingMessage, response: ServerResponse) => void,
  limits: object = { answerMsMax: 60_000, streamMsMax: 60_000 },
) {
  const server = createServer(answer)
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const { logger, logged } = recordingLogger()
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const access = openRemoteAccess({ url, outage: controlPlaneOutage(logger), ...limits })
  onTestFinished(async () => {
    await access.close()
    server.closeAllConnections()
    server.close()
  })
  return { access, logged }
}

const request = { credential: { scheme: 'Thing', secret: 'x' }, channel: absentId, action: 'publish' } as const

test.each([
  ['an empty object', 200, '{}'],
  ['null', 200, 'null'],
  ['a text', 200, '"yes"'],
  ['a grant without a publisher', 200, '{"allowed":true,"owner":"u"}'],
  ['a grant without an owner', 200, '{"allowed":true,"publisher":"t"}'],
  ['a grant to a number', 200, '{"allowed":true,"publisher":1,"owner":"u"}'],
  ['a word for true', 200, '{"allowed":"true","publisher":"t","owner":"u"}'],
  ['a refusal without a reason', 200, '{"allowed":false}'],
  ['half an object', 200, '{"allowed":true,'],
  ['nothing', 200, ''],
  ['a page of another server', 200, '<html>'],
  ['a grant with another status', 201, '{"allowed":true,"publisher":"t","owner":"u"}'],
  ['a redirect', 302, ''],
  ['a malformed request', 400, '{}'],
  ['a path that it does not know', 404, '{}'],
  ['a defect', 500, '{}'],
  ['an answer without an end', 200, `{"allowed":true,"publisher":"t","owner":"${'u'.repeat(100_000)}"}`],
])('%s is neither a grant nor a refusal', async (_name, status, body) => {
  const { access } = await openAgainst(
    (_request, response) => void response.writeHead(status, { 'content-type': 'application/json' }).end(body),
  )
  await expect(access.authorize(request)).rejects.toBeInstanceOf(AccessUnavailableError)
  await expect(access.deletedChannels([absentId])).rejects.toBeInstanceOf(AccessUnavailableError)
})

test.each([408, 425, 429, 500, 502, 503, 504])('a start waits if a proxy answers %i', async status => {
  const { access } = await openAgainst((_request, response) => void response.writeHead(status).end())
  await expect(access.reach()).rejects.toThrow(`is unavailable (${status})`)
  expect(access.isAccepted()).toBe(true)
})

test('a request on a connection that the other side closes at that moment is sent once more, and no more than that', async () => {
  const asked = new Map<unknown, number>()
  let always = false
  const { access } = await openAgainst((request, response) => {
    if (request.method !== 'POST') return response.writeHead(503).end()
    const before = asked.get(request.socket) ?? 0
    asked.set(request.socket, before + 1)
    if (always || before > 0) return request.socket.destroy()
    return response.writeHead(200).end('{"allowed":false,"reason":"forbidden"}')
  })
  for (let round = 0; round < 5; round++) expect(await access.authorize(request)).toEqual({ allowed: false, reason: 'forbidden' })
  expect(asked.size).toBe(5)

  always = true
  asked.clear()
  await expect(access.authorize(request)).rejects.toBeInstanceOf(AccessUnavailableError)
  expect(asked.size).toBeLessThanOrEqual(2)
})

const change = (sequence: number): string => JSON.stringify({ type: 'change', sequence, change: { kind: 'thing', thing: 't' } })
const beat = (sequence: number): string => JSON.stringify({ type: 'beat', sequence })

test.each([
  ['a number left out', [beat(0), change(2)], /left changes out of its stream/],
  ['a beat ahead of its changes', [beat(0), beat(1)], /left changes out of its stream/],
  ['a change twice', [beat(0), change(1), change(1)], /left changes out of its stream/],
  ['a change at the beginning', [change(1)], /left changes out of its stream/],
  ['a line that is not JSON', [beat(0), 'hello'], /sent a line that is not JSON/],
  [
    'an unknown kind',
    [beat(0), '{"type":"change","sequence":1,"change":{"kind":"planet"}}'],
    /sent a line of an unknown kind: run the same version/,
  ],
  ['a line that never ends', [beat(0), 'x'.repeat(70_000).replaceAll('\n', '')], /sent a line (longer than 1024 bytes|that is not JSON)/],
  ['its end', [beat(0)], /ended the stream/],
])('after %s the stream is opened again, and every grant is requested again', async (_name, lines, reason) => {
  let streams = 0
  const { access, logged } = await openAgainst((_request, response) => {
    streams++
    response.writeHead(200, { 'content-type': streamType })
    response.write(streams > 1 ? `${beat(7)}\n` : `${lines.join('\n')}\n`)
    if (streams === 1 && lines.length === 1) response.end()
  })
  const heard: string[] = []
  access.onChange(({ kind }) => void heard.push(kind))
  // The start reports a first attempt that fails; later ones are in the log.
  const first = await access.reach().then(() => '', String)
  await expect.poll(() => first + logged()).toMatch(reason)
  await expect.poll(() => access.check().then(() => 'followed', String)).toBe('followed')
  expect(streams).toBe(2)
  expect(heard.at(-1)).toBe('unheard')
})

test('a stream without beats is closed after 3 s', async () => {
  let streams = 0
  const { access, logged } = await openAgainst((_request, response) => {
    streams++
    response.writeHead(200, { 'content-type': streamType }).write(`${beat(0)}\n`)
  }, {})
  await expect.poll(() => access.check().then(() => 'followed', String)).toBe('followed')
  await expect.poll(logged).toContain('sent nothing for 3 s')
  await expect.poll(() => streams).toBeGreaterThan(1)
})
