// Requests of the demonstration.

import { request } from 'undici'
import { ToolError } from '../streams.ts'

/** @returns the text of the answer. @throws ToolError if the platform refuses the request; other errors if the same request may succeed later */
export async function ask(url: string, path: string, headers: Record<string, string> = {}, body?: object): Promise<string> {
  const sent = body === undefined ? { method: 'GET' } : { method: 'POST', body: JSON.stringify(body) }
  const answer = await request(url + path, {
    ...sent,
    headers: { accept: 'application/json', 'content-type': 'application/json', ...headers },
  })
  const text = await answer.body.text()
  const { statusCode: status } = answer
  if (status < 400) return text
  throw new (status >= 500 || status === 429 ? Error : ToolError)(`${sent.method} ${path} answered ${status}: ${text}`)
}

/** @returns the header of a user */
export async function signIn(url: string, email: string, password: string): Promise<{ authorization: string }> {
  const { token } = JSON.parse(await ask(url, '/tokens', {}, { email, password })) as { token: string }
  return { authorization: `Bearer ${token}` }
}
