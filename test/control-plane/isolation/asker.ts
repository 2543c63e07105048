// Sends requests over HTTP, and records all secrets sent or received and all refusals: no secret may occur in a refusal.

import { type Answer, type CallOptions, call } from '../../up/operator.ts'

export interface Asker {
  readonly url: string
  readonly call: (method: string, path: string, options?: CallOptions) => Promise<Answer>
  /** Passwords, keys of things, values of API keys, private keys of certificates, and tokens with their signatures. */
  readonly secrets: Set<string>
  /** Headers and bodies of error answers. */
  readonly refusals: string[]
}

/** Fields of requests and answers whose text is a secret. */
const secretFields = new Set([
  'password',
  'old_password',
  'key',
  'token',
  'value',
  'external_key',
  'thing_key',
  'mainflux_key',
  'client_key',
  'ClientKey',
])
/** Shorter ones occur in other texts by chance. */
const secretLengthMin = 8

export function openAsker(url: string): Asker {
  const secrets = new Set<string>()
  const refusals: string[] = []

  function note(secret: string): void {
    if (secret.length < secretLengthMin) return
    secrets.add(secret)
    // The part of a PEM that is the same in a text of any form.
    const pemLine = /-\n(.+)\n/.exec(secret)?.[1]
    if (pemLine !== undefined) secrets.add(pemLine)
    const [, , signature] = secret.split('.')
    if (signature !== undefined) secrets.add(signature)
  }

  function noteFields(value: unknown): void {
    if (typeof value !== 'object' || value === null) return
    for (const [name, inner] of Object.entries(value)) {
      if (secretFields.has(name) && typeof inner === 'string') note(inner)
      else noteFields(inner)
    }
  }

  return {
    url,
    secrets,
    refusals,
    async call(method, path, options = {}) {
      const { authorization, body } = options
      if (authorization !== undefined) note(authorization.replace(/^\w+ /, ''))
      noteFields(body)
      const answer = await call(url, method, path, options)
      // The `key` of a dead letter is its channel.
      if (!path.startsWith('/admin/')) noteFields(answer.json)
      if (answer.status >= 400) refusals.push(`${JSON.stringify([...answer.headers])} ${answer.text}`)
      return answer
    },
  }
}
