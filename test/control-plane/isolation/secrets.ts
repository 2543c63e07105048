// Looks for secrets in logs, refusals and other texts.

import type { Asker } from './asker.ts'

/** The secrets found in each text: `log: password of ow…`. */
export function leaksOf(texts: Readonly<Record<string, string>>, secrets: Iterable<string>): string[] {
  const all = [...secrets]
  if (all.length === 0) throw new Error('no secrets are known: nothing was asked')
  return Object.entries(texts).flatMap(([where, text]) =>
    all.filter(secret => text.includes(secret)).map(secret => `${where}: ${secret.slice(0, 14)}…`),
  )
}

/** The forms in which a text can contain the bytes of a key. */
export function formsOf(key: Uint8Array): string[] {
  const bytes = Buffer.from(key)
  return [
    bytes.toString('hex'),
    bytes.toString('base64'),
    bytes.toString('base64url'),
    bytes.toString('latin1'),
    JSON.stringify(bytes.toJSON().data),
  ]
}

/** Invalid requests that contain a secret, each in a place where a client may put one by mistake. */
export async function askWithHiddenSecrets({ call, secrets, url }: Asker): Promise<void> {
  let serial = 0
  const hidden = (): string => {
    const secret = `hidden-${process.pid}-${serial++}-${'x'.repeat(20)}`
    secrets.add(secret)
    return secret
  }
  await call('POST', '/tokens', { body: `{"email":"who@sluice.example","password":"${hidden()}"` })
  await call('POST', '/tokens', { body: `{"email":"who@sluice.example","password":"${hidden()}\\q"}` })
  await call('POST', '/tokens', { body: { email: 'who@sluice.example', password: hidden() } })
  await call('POST', '/tokens', { body: { email: 'who@sluice.example', password: [hidden()] } })
  await call('POST', '/tokens', { body: { email: 'who@sluice.example', password: hidden() }, type: 'text/plain' })
  await call('POST', '/tokens', { body: { email: 'who@sluice.example', password: hidden().repeat(200) } })
  await call('POST', '/users', { body: { email: hidden(), password: hidden() } })
  await call('POST', '/users', { body: { email: 'x@sluice.example', password: `${hidden()}\0` } })
  for (const path of [`/${hidden()}`, `/things/${hidden()}`, `/things?limit=${hidden()}`, `/channels/${hidden()}/messages`]) {
    for (const method of ['GET', 'DELETE', 'PATCH']) await call(method, path)
  }
  for (const scheme of ['Basic', 'Bearer', 'Thing', 'Digest', '']) {
    await call('GET', '/things', { authorization: `${scheme} ${hidden()}`.trim() })
    await call('POST', `/channels/00000000-0000-4000-8000-000000000000/messages`, {
      authorization: `${scheme} ${hidden()}`.trim(),
      body: '[]',
    })
  }
  for (const scheme of ['Thing', 'Bearer', 'thing', ''])
    await call('GET', `/things/bootstrap/${serial}`, { authorization: `${scheme} ${hidden()}`.trim() })
  await call('POST', '/mapping', { body: { external_id: 'x', external_key: hidden() } })
  await call('GET', `/things/configs?mainflux_key=${hidden()}`)
  await call('GET', '/things', { authorization: `Bearer ${hidden()}, ${hidden()}` })
  const headers = { authorization: `Bearer ${hidden()}`, 'transfer-encoding': 'gzip, chunked', cookie: hidden() }
  await fetch(`${url}/things`, { method: 'POST', headers, body: hidden() }).catch(() => undefined)
}
