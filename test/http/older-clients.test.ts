// Other forms in requests of older clients, rewritten into ours.

import { describe, expect, test } from 'vitest'
import { type Compatibility, plainAuthorization, plainUrl, warnOfCompatibility } from '../../http/older-clients.ts'
import { createServer } from '../../http/server.ts'
import { recordingLogger } from '../control-plane/platform.ts'

const key = '7d1c7e4f-a6e3-44ae-9cdc-a1a0dd4b7d2b'
const token = 'eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJ4In0.c2lnbmF0dXJl_-'
const basic = (pair: string): string => `Basic ${Buffer.from(pair).toString('base64')}`

test.each([
  ['a token without a scheme', token, `Bearer ${token}`],
  ['an API key without a scheme', 'sluice_abc', 'Bearer sluice_abc'],
  ['a key without a scheme', key, `Thing ${key}`],
  ['a token', `Bearer ${token}`, `Bearer ${token}`],
  ['an API key', 'Bearer sluice_abc', 'Bearer sluice_abc'],
  ['a key as a token', `Bearer ${key}`, `Thing ${key}`],
  ['a key as a token, in another case', `bearer ${key}`, `Thing ${key}`],
  ['a key', `Thing ${key}`, `Thing ${key}`],
  ['a password, whoever the user is', basic(`anyone:${key}`), `Thing ${key}`],
  ['a password with a colon', basic(`:a:b`), 'Thing a:b'],
  ['a password alone', basic(key), `Thing ${key}`],
  ['nothing', '', ''],
  ['two words', 'one two three', 'one two three'],
  ['two credentials', 'Bearer one, Bearer two', 'Bearer one, Bearer two'],
  ['another scheme', 'Digest abc', 'Digest abc'],
])('%s', (_, header, plain) => {
  expect(plainAuthorization(header)).toBe(plain)
})

test.each([
  ['/http/channels/c/messages?a=/http/', '/channels/c/messages?a=/http/'],
  ['/http', '/http'],
  ['/https/x', '/https/x'],
  ['/channels/http/messages', '/channels/http/messages'],
  ['/http//evil.example/', '//evil.example/'],
  ['/configs', '/things/configs'],
  ['/configs?offset=0', '/things/configs?offset=0'],
  ['/state/t', '/things/state/t'],
  ['/bootstrap/d', '/things/bootstrap/d'],
  ['/bootstraps/d', '/bootstraps/d'],
  ['/things/configs/t', '/things/configs/t'],
  [`/${key}`, `/${key}`],
])('the path %s', (url, plain) => {
  expect(plainUrl('GET', url)).toBe(plain)
})

test.each([
  [`/${key}`, `/certs/${key}`],
  [`/${key.toUpperCase()}?a=b`, `/certs/${key.toUpperCase()}?a=b`],
  [`/${key}/`, `/${key}/`],
  [`/${key}0`, `/${key}0`],
  [`/certs/${key}`, `/certs/${key}`],
  [`/things/${key}`, `/things/${key}`],
  ['/configs/t', '/things/configs/t'],
])('DELETE %s', (url, plain) => {
  expect(plainUrl('DELETE', url)).toBe(plain)
})

describe.each(['none', '0.13'] as const)('compatibility %s', compatibility => {
  test('a server accepts the other forms only with the option', async () => {
    const app = createServer({ logger: recordingLogger().logger, compatibility })
    app.get('/seen', ({ headers }) => ({ authorization: headers.authorization }))
    const get = (url: string) => app.inject({ url, headers: { authorization: key } })
    expect((await get('/seen')).json()).toEqual({ authorization: compatibility === 'none' ? key : `Thing ${key}` })
    expect((await get('/http/seen')).statusCode).toBe(compatibility === 'none' ? 404 : 200)
    await app.close()
  })

  test('the start logs which forms are accepted', () => {
    const { logger, logged } = recordingLogger()
    warnOfCompatibility(compatibility satisfies Compatibility, logger)
    if (compatibility === 'none') expect(logged()).toBe('')
    else expect(logged()).toMatch(/"level":"?(40|warn)"?.*as Basic, as Bearer and without a scheme.*SVC_COMPATIBILITY/)
  })
})
