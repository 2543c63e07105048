// How a request's credential and channel are parsed.

import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { parseChannel, parseCredential } from '../../control-plane/client.ts'

const channel = randomUUID()

const headers: [header: string | undefined, credential: ReturnType<typeof parseCredential>][] = [
  ['Thing 3a1c', { scheme: 'Thing', secret: '3a1c' }],
  ['thing  3a1c ', { scheme: 'Thing', secret: '3a1c' }],
  ['BEARER a.b.c', { scheme: 'Bearer', secret: 'a.b.c' }],
  [undefined, undefined],
  ['', undefined],
  ['Thing', undefined],
  ['Thing ', undefined],
  ['3a1c', undefined],
  ['Basic 3a1c', undefined],
  ['Thing a b', undefined],
  ['Thing a, Bearer b', undefined],
]

test.each(headers)('the Authorization header %j is read as %o', (header, credential) => {
  expect(parseCredential(header)).toEqual(credential)
})

test('a channel is compared in lower case, and a text that is not a UUID is not a channel', () => {
  expect(parseChannel('A1B2C3D4-0000-4000-8000-00000000000F')).toBe('a1b2c3d4-0000-4000-8000-00000000000f')
  for (const text of ['', 'my-channel', 'a1b2c3d4000040008000000000000000', `${channel} `, `${channel}\n`, "' or 1=1"]) {
    expect(parseChannel(text)).toBeUndefined()
  }
})
