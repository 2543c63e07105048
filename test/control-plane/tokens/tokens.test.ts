// Tokens over HTTP: issued for email and password, and refused when forged, expired or older than the password.

import { createHmac } from 'node:crypto'
import { decodeJwt, SignJWT } from 'jose'
import { beforeAll, expect, test } from 'vitest'
import { deriveKey } from '../../../config/secrets.ts'
import { call } from '../../up/operator.ts'
import { describePlatform, masterKey, type User } from '../platform.ts'

const key = deriveKey(masterKey, 'tokens')
const secondsNow = (): number => Math.floor(Date.now() / 1000)

describePlatform('tokens', platform => {
  let user: User
  beforeAll(async () => {
    user = await platform().user()
  })
  const signIn = (body: object) => call(platform().url, 'POST', '/tokens', { body })
  const statusWith = async (token: string): Promise<number> =>
    (await call(platform().url, 'GET', '/things', { authorization: `Bearer ${token}` })).status

  /** A token as the platform makes it, but for what is given. */
  function forge({
    claims = {},
    issuer = 'sluice',
    subject = user.id,
    secret = key as Uint8Array,
    typ = 'JWT',
    expires = secondsNow() + 60,
  }): Promise<string> {
    return new SignJWT({ version: 1, ...claims })
      .setProtectedHeader({ alg: 'HS256', typ })
      .setIssuer(issuer)
      .setSubject(subject)
      .setIssuedAt()
      .setExpirationTime(expires)
      .sign(secret)
  }

  test('email and password give a token that works, lives as long as configured, and is not to be cached', async () => {
    const answer = await signIn({ email: user.email, password: user.password })
    expect([answer.status, Object.keys(answer.json ?? {})]).toEqual([201, ['token']])
    expect(answer.headers.get('cache-control')).toBe('no-store')
    const token = answer.json?.token as string
    expect(await statusWith(token)).toBe(200)
    const { sub, iat, exp } = decodeJwt(token)
    expect([sub, exp! - iat!]).toEqual([user.id, 3600])
  })

  test('the email may be written in any case and with outer spaces', async () => {
    expect((await signIn({ email: ` ${user.email.toUpperCase()} `, password: user.password })).status).toBe(201)
  })

  test('an unknown email and a wrong password are answered alike', async () => {
    const answers = await Promise.all([
      signIn({ email: user.email, password: 'wrong horse battery' }),
      signIn({ email: 'nobody@sluice.example', password: user.password }),
      signIn({ email: 'no email at all', password: '' }),
    ])
    const bodies = answers.map(({ json }) => ({ ...json, request_id: '' }))
    for (const [index, answer] of answers.entries()) {
      expect(answer.status).toBe(401)
      expect(answer.headers.get('www-authenticate')).toBe('Bearer realm="sluice"')
      expect(bodies[index]).toEqual({ ...bodies[0], detail: 'the email or the password is wrong' })
    }
  })

  test.each([
    ['no password', { email: 'a@b.example' }],
    ['a password of the wrong type', { email: 'a@b.example', password: 12_345_678 }],
    ['an email of the wrong type', { email: null, password: '12345678' }],
    ['a property that is not known', { email: 'a@b.example', password: '12345678', otp: '1' }],
  ])('%s is a malformed request', async (_name, body) => {
    expect((await signIn(body)).status).toBe(400)
  })

  test('what the other tests forge is a valid token when nothing is wrong with it', async () => {
    expect(await statusWith(await forge({}))).toBe(200)
  })

  test.each<[string, () => Promise<string> | string]>([
    ['an expired token', () => forge({ expires: secondsNow() - 1 })],
    ['a token signed with another key', () => forge({ secret: deriveKey(masterKey, 'thing-keys') })],
    ['a token of another issuer', () => forge({ issuer: 'elsewhere' })],
    ['a token of another type', () => forge({ typ: 'at+jwt' })],
    ['a token of another version', () => forge({ claims: { version: 2 } })],
    ['a token with a version of the wrong type', () => forge({ claims: { version: '1' } })],
    ['a token of a user that does not exist', () => forge({ subject: '00000000-0000-4000-8000-000000000000' })],
    ['a token whose subject is no id', () => forge({ subject: "' OR 1=1 --" })],
    [
      'a token without a signature, algorithm none',
      async () => {
        const [, payload] = (await forge({})).split('.')
        return `${Buffer.from('{"alg":"none","typ":"JWT"}').toString('base64url')}.${payload}.`
      },
    ],
    [
      'a token of another HMAC algorithm, signed with the right key',
      async () => {
        const [, payload] = (await forge({})).split('.')
        const signed = `${Buffer.from('{"alg":"HS512","typ":"JWT"}').toString('base64url')}.${payload}`
        return `${signed}.${createHmac('sha512', key).update(signed).digest('base64url')}`
      },
    ],
    [
      'a token whose claims were changed',
      async () => {
        const [header, payload, signature] = (await forge({})).split('.') as [string, string, string]
        const claims = JSON.parse(Buffer.from(payload, 'base64url').toString()) as object
        return [header, Buffer.from(JSON.stringify({ ...claims, exp: secondsNow() + 1e6 })).toString('base64url'), signature].join('.')
      },
    ],
    ['a token cut short', async () => (await forge({})).slice(0, -5)],
    ['no token at all', () => 'x'],
    ['a thing key in its place', () => '00000000-0000-4000-8000-000000000000'],
  ])('%s is refused', async (_name, token) => {
    const answer = await call(platform().url, 'GET', '/things', { authorization: `Bearer ${await token()}` })
    expect(answer.status).toBe(401)
    expect(answer.headers.get('www-authenticate')).toBe('Bearer realm="sluice", error="invalid_token"')
  })

  test.each(['', 'Bearer', 'Bearer ', 'Basic dXNlcjpwYXNz', 'Thing 00000000-0000-4000-8000-000000000000', 'Bearer a b'])(
    'the header Authorization: %j is refused',
    async authorization => {
      const answer = await call(platform().url, 'GET', '/things', { authorization })
      expect(answer.status).toBe(401)
      expect(answer.headers.get('www-authenticate')).toContain('Bearer realm="sluice"')
    },
  )

  test('no token is in the log', async () => {
    const token = user.token.slice('Bearer '.length)
    await statusWith(`${token}x`)
    expect(platform().logged()).not.toContain(token.split('.')[2])
  })
})
