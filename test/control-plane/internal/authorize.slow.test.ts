// POST /internal/authorize: who may send requests, the answers, and malformed requests.

import { expect, test } from 'vitest'
import { describeWithPostgres } from '../../servers/postgres.ts'
import { call, expectStatus, makeSite } from '../../up/operator.ts'
import { absentId } from '../platform.ts'
import { credentialOf, openInstance, token } from './instance.ts'

const authorization = `Bearer ${token}`
const path = '/internal/authorize'
const deletedPath = '/internal/deleted-channels'
const request = { scheme: 'Thing', secret: 'x', channel: absentId, action: 'publish' }

describeWithPostgres('authorize', postgres => {
  test('a key, a token and neither get the same answers as in process, with the time that a token has left', async () => {
    const { platform, internalUrl } = await openInstance(await postgres.createDatabase())
    const { device, owner, channel, thing } = await makeSite(platform.url)
    const ask = async (of: string, action: string, on = channel) =>
      (await call(internalUrl, 'POST', path, { authorization, body: { ...credentialOf(of), channel: on, action } })).json
    const user = JSON.parse(Buffer.from(owner.split('.')[1]!, 'base64url').toString()).sub as string
    expect(await ask(device, 'publish')).toEqual({ allowed: true, publisher: thing, owner: user })
    const bound = { authorization: await platform.administrator(), body: { bounded: true } }
    await expectStatus(call(platform.url, 'PUT', `/users/${user}/bounded`, bound), 204)
    expect(await ask(device, 'publish')).toEqual({ allowed: true, publisher: thing, owner: user, bounded: true })
    expect(await ask(device, 'publish', absentId)).toEqual({
      allowed: false,
      reason: 'forbidden',
      publisher: thing,
      owner: user,
      bounded: true,
    })
    expect(await ask('Thing x', 'publish')).toEqual({ allowed: false, reason: 'unauthenticated' })
    expect(await ask(owner, 'publish')).toEqual({ allowed: false, reason: 'forbidden' })
    const granted = await ask(owner, 'read')
    expect(granted).toEqual({ allowed: true, publisher: null, owner: user, ends_in_ms: expect.any(Number) })
    expect(granted!['ends_in_ms']).toBeGreaterThan(3_300_000)
    expect(granted!['ends_in_ms']).toBeLessThanOrEqual(3_600_000)
  })

  test.each([
    ['no token', undefined],
    ['another token', `Bearer ${token}x`],
    ['its beginning', `Bearer ${token.slice(0, -1)}`],
    ['another scheme', `Thing ${token}`],
    ['no scheme', token],
    ['the token twice', `Bearer ${token} ${token}`],
  ])('with %s it is 401 on all paths, before anything else in the request is checked', async (_name, header) => {
    const { internalUrl } = await openInstance(await postgres.createDatabase())
    const shown = header === undefined ? {} : { authorization: header }
    for (const answer of [
      await call(internalUrl, 'POST', path, { ...shown, body: request }),
      await call(internalUrl, 'POST', path, { ...shown, body: '{ no JSON' }),
      await call(internalUrl, 'POST', deletedPath, { ...shown, body: { channels: [] } }),
      await call(internalUrl, 'GET', '/internal/changes', shown),
    ]) {
      expect([answer.status, answer.json?.['code']]).toEqual([401, 'unauthenticated'])
      expect(answer.headers.get('www-authenticate')).toBe('Bearer realm="sluice internal"')
      expect(answer.text).not.toContain(token)
    }
  })

  test('malformed requests are refused with the fault, and affect no other', async () => {
    const { platform, internalUrl, logged } = await openInstance(await postgres.createDatabase())
    const { device, channel } = await makeSite(platform.url)
    const status = async (body: string | object, type?: string): Promise<number> =>
      (await call(internalUrl, 'POST', path, { authorization, body, ...(type === undefined ? {} : { type }) })).status
    expect(await status('')).toBe(400)
    expect(await status('[')).toBe(400)
    expect(await status('null')).toBe(400)
    expect(await status([request])).toBe(400)
    expect(await status({ ...request, secret: 1 })).toBe(400)
    expect(await status({ ...request, secret: null })).toBe(400)
    expect(await status({ ...request, secret: 'hidden\0' })).toBe(400)
    expect(await status({ ...request, secret: 's'.repeat(16_385) })).toBe(400)
    expect(await status({ ...request, scheme: 'thing' })).toBe(400)
    expect(await status({ ...request, action: 'write' })).toBe(400)
    expect(await status({ ...request, admin: true })).toBe(400)
    expect(await status({ ...request, channel: 'c'.repeat(2049) })).toBe(400)
    expect(await status('{"__proto__":{}}')).toBe(400)
    expect(await status('['.repeat(5_000))).toBe(400)
    expect(await status({ ...request, secret: 's'.repeat(100_000) })).toBe(413)
    expect(await status(JSON.stringify(request), 'text/plain')).toBe(415)
    for (const channels of [undefined, 'c', [1], ['c'.repeat(65)], Array.from({ length: 401 }, () => absentId)]) {
      expect((await call(internalUrl, 'POST', deletedPath, { authorization, body: { channels } })).status).toBe(400)
    }
    expect((await call(internalUrl, 'GET', path, { authorization })).status).toBe(405)
    expect((await call(internalUrl, 'GET', '/internal/authorise', { authorization })).status).toBe(404)
    // A well-formed request is answered, whatever its values.
    for (const odd of ['', "' OR true --", '\u{10ffff}', '%00', '../..']) {
      expect(await status({ ...request, secret: odd, channel: odd })).toBe(200)
    }
    const known = await call(internalUrl, 'POST', path, { authorization, body: { ...credentialOf(device), channel, action: 'publish' } })
    expect(known.json).toMatchObject({ allowed: true })
    expect(known.headers.get('cache-control')).toBe('no-store')
    for (const secret of [token, 'hidden', device.slice(6)]) expect(logged()).not.toContain(secret)
  })

  test('without a configured token, anyone who reaches the listener may send requests', async () => {
    const { internalUrl } = await openInstance(await postgres.createDatabase(), { token: undefined })
    expect((await call(internalUrl, 'POST', path, { body: request })).json).toEqual({ allowed: false, reason: 'unauthenticated' })
  })
})
