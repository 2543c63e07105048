// Tokens over HTTP: issued for email and password, and refused when forged, expired or older than the password.

import { createHmac } from 'node:crypto'
import { decodeJwt, SignJWT } from 'jose'
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { deriveKey } from '../../../config/secrets.ts'
import { argon2id } from '../../../control-plane/users/passwords.ts'
import { call } from '../../up/operator.ts'
import { describePlatform, failSignIns, masterKey, openCheapPasswords, openPlatform, type User } from '../platform.ts'

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

  /** A token like those of the platform, except for the given values. */
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

  test('email and password give a token that works, lasts as long as configured, and must not be cached', async () => {
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

  test('an unknown email and a wrong password get the same answer', async () => {
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
  ])('%s is a malformed request', async (_name, body) => {
    expect((await signIn(body)).status).toBe(400)
  })

  describe('guessing', () => {
    const from = (address: string, body: object, { url } = platform()) =>
      call(url, 'POST', '/tokens', { body, headers: { 'x-forwarded-for': address } })
    const fail = (times: number, ...what: string[]): Promise<void> => failSignIns(platform().database, times, ...what)

    test('after twenty failures at an account an address is limited there, also with the right password, and nowhere else', async () => {
      const { email, password } = await platform().user()
      await fail(19, email, '198.51.100.1')
      expect((await from('198.51.100.1', { email, password: 'wrong horse battery' })).status).toBe(401)
      const limited = await from('198.51.100.1', { email: ` ${email.toUpperCase()}`, password })
      expect([limited.status, limited.json?.code]).toEqual([429, 'too_many_requests'])
      expect(Number(limited.headers.get('retry-after'))).toBeGreaterThan(30)
      expect(Number(limited.headers.get('retry-after'))).toBeLessThanOrEqual(60)
      expect((await from('198.51.100.2', { email, password })).status).toBe(201)
      expect((await from('198.51.100.1', { email: user.email, password: user.password })).status).toBe(201)
    })

    test('an unknown email is limited like a known one', async () => {
      const email = 'nobody-at-all@sluice.example'
      await fail(19, email, '198.51.100.1')
      expect((await from('198.51.100.1', { email, password: 'wrong horse battery' })).status).toBe(401)
      expect((await from('198.51.100.1', { email, password: 'wrong horse battery' })).status).toBe(429)
    })

    test('however many come at once, no more than twenty are checked', async () => {
      const { email } = await platform().user()
      await fail(17, email, '198.51.100.1')
      const attempts = Array.from({ length: 12 }, () => from('198.51.100.1', { email, password: 'wrong horse battery' }))
      const answers = await Promise.all(attempts)
      expect(answers.filter(({ status }) => status === 401)).toHaveLength(3)
      expect(answers.filter(({ status }) => status === 429)).toHaveLength(9)
    })

    test('after many failures from many addresses the right password is delayed, and works', async () => {
      const { email, password } = await platform().user()
      await fail(1_000, email)
      const startedMs = performance.now()
      expect((await from('198.51.100.3', { email, password })).status).toBe(201)
      expect(performance.now() - startedMs).toBeGreaterThan(1_990)
    })

    test('addresses that failed at an account do not keep others out of its queue', async () => {
      const { email, password } = await platform().user()
      const addresses = Array.from({ length: 20 }, (_, nth) => `203.0.113.${nth}`)
      await fail(10, email)
      for (const address of addresses) await fail(1, email, address)
      // No attempt ends before the queue is full.
      const full = Promise.withResolvers<void>()
      const passwords = openCheapPasswords(async (...asked) => full.promise.then(() => argon2id(...asked)))
      const own = await openPlatform(platform().database, { passwords })
      onTestFinished(() => own.close())
      const wrong = addresses.map(address => from(address, { email, password: 'wrong horse battery' }, own))
      const right = from('198.51.100.4', { email, password }, own)
      expect((await Promise.race(wrong)).status).toBe(429)
      full.resolve()
      expect((await right).status).toBe(201)
      const statuses = (await Promise.all(wrong)).map(({ status }) => status)
      expect(statuses.toSorted((one, other) => one - other)).toEqual([...Array<number>(19).fill(401), 429])
    })

    test('right passwords write nothing', async () => {
      const rows = () => platform().database.query('SELECT * FROM control_plane.failed_attempts ORDER BY key')
      const before = await rows()
      await Promise.all(Array.from({ length: 10 }, () => from('198.51.100.1', { email: user.email, password: user.password })))
      expect(await rows()).toEqual(before)
    })
  })

  test('credentials of more than 4 KiB, and metadata of 64 KiB beside them, are 413 at once with the limit of their route, however many come, and others are answered meanwhile', async () => {
    const objects = `[${'{},'.repeat(349_000)}{}]`
    const refused = Array.from({ length: 4 }, (_, nth) =>
      call(platform().url, 'POST', nth % 2 === 0 ? '/tokens' : '/users', { body: objects }),
    )
    expect(await statusWith(user.token.slice('Bearer '.length))).toBe(200)
    for (const [nth, { status, json }] of (await Promise.all(refused)).entries()) {
      expect([status, json?.detail]).toEqual([413, `the body is limited to ${nth % 2 === 0 ? 4096 : 69_632} bytes: split the request`])
    }
  })

  test.each([
    ['a password of 1,025 characters', { email: 'a@b.example', password: 'x'.repeat(1025) }, '/body/password'],
    ['an email of 1,025 characters', { email: 'x'.repeat(1025), password: '12345678' }, '/body/email'],
  ])('%s is refused by its length, without a hash', async (_name, body, pointer) => {
    const { status, json } = await signIn(body)
    expect([status, json?.errors]).toEqual([400, [{ pointer, detail: 'is not allowed: give text of at most 1024 characters' }]])
  })

  test('a forged token of the other tests is valid if nothing is changed in it', async () => {
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
    ['a token whose subject is not an id', () => forge({ subject: "' OR 1=1 --" })],
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
    ['a token with = at its end', async () => `${await forge({})}=`],
    [
      'a token whose signature is the same bytes in other letters',
      async () => {
        const token = await forge({})
        // The last of 43 letters carries four bits of the signature and two unused ones.
        const letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
        return token.slice(0, -1) + letters[letters.indexOf(token.at(-1)!) + 1]!
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
