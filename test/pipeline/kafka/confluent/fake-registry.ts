// A fake schema registry with given answers.

import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { onTestFinished } from 'vitest'

/** A status and a body for each requested path; a body that is not text is sent as JSON. */
export type Answers = Readonly<Record<string, readonly [status: number, body: unknown]>>

/** @returns its URL. It closes with the test */
export async function serve(listener: RequestListener): Promise<string> {
  const server = createServer(listener)
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

/**
 * Serves these answers, which may be changed. Other paths are answered like by a proxy without a registry behind it.
 *
 * @returns its URL, and the requested paths
 */
export async function serveAnswers(answers: Answers): Promise<{ url: string; asked: string[] }> {
  const asked: string[] = []
  const url = await serve((request, response) => {
    const path = request.url!.replace(/\?.*$/, '')
    asked.push(path)
    const [status, body] = answers[path] ?? [404, 'default backend - 404']
    response.writeHead(status, { 'content-type': 'application/json' }).end(typeof body === 'string' ? body : JSON.stringify(body))
  })
  return { url, asked }
}
