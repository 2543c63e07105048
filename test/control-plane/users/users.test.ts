// Registration over HTTP: who may register, with what, and what a new user gets.

import { expect, test } from 'vitest'
import { openRelationalPolicies } from '../../../control-plane/policies/relational.ts'
import { call } from '../../up/operator.ts'
import { describePlatform } from '../platform.ts'

const password = 'correct horse battery'

describePlatform('users', platform => {
  const register = (body: object | string, authorization?: string) =>
    call(platform().url, 'POST', '/users', authorization === undefined ? { body } : { body, authorization })

  test('anyone may register, gets the Location of the user with an empty body, and becomes a member of users', async () => {
    const answer = await register({ email: 'first@sluice.example', password })
    expect([answer.status, answer.text]).toEqual([201, ''])
    const id = /^\/users\/([0-9a-f-]{36})$/.exec(answer.headers.get('location') ?? '')?.[1]
    const policies = await openRelationalPolicies(platform().database).list({ subject: id as never })
    expect(policies).toEqual([{ subject: id, relation: 'member', object: 'users' }])
  })

  test('a second registration of an email is a conflict, however the email is written', async () => {
    expect((await register({ email: 'twice@sluice.example', password })).status).toBe(201)
    for (const email of ['twice@sluice.example', 'Twice@Sluice.Example', '  twice@sluice.example\n']) {
      expect((await register({ email, password: 'another password' })).status).toBe(409)
    }
  })

  test('of ten registrations of one email at once, one succeeds and nine are conflicts', async () => {
    const answers = await Promise.all(Array.from({ length: 10 }, () => register({ email: 'race@sluice.example', password })))
    expect(answers.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([201, ...Array.from({ length: 9 }, () => 409)])
    const users = await platform().database.query("SELECT id FROM control_plane.users WHERE email = 'race@sluice.example'")
    expect(users).toHaveLength(1)
  })

  test.each([
    ['no email', { password }, '/body/email'],
    ['no password', { email: 'bad@sluice.example' }, '/body/password'],
    ['an invalid email', { email: 'bad', password }, '/body/email'],
    ['an email of the wrong type', { email: 5, password }, '/body/email'],
    ['a password that is too short', { email: 'bad@sluice.example', password: 'seven77' }, '/body/password'],
    ['a password that is too long', { email: 'bad@sluice.example', password: 'x'.repeat(1025) }, '/body/password'],
    ['a password of the wrong type', { email: 'bad@sluice.example', password: ['correct', 'horse'] }, '/body/password'],
    ['an email with NUL', { email: 'bad\0@sluice.example', password }, '/body/email'],
    ['a password with half a surrogate pair', '{"email":"bad@sluice.example","password":"1234567\\ud800"}', '/body/password'],
    ['metadata of the wrong type', { email: 'bad@sluice.example', password, metadata: [] }, '/body/metadata'],
  ])('%s is refused with its place', async (_name, body, pointer) => {
    const answer = await register(body)
    expect(answer.status).toBe(400)
    expect(answer.json?.errors).toEqual([{ pointer, detail: expect.any(String) }])
  })

  test('all faults of a registration are reported', async () => {
    const answer = await register({ email: 'bad', password: 'short' })
    expect((answer.json!.errors as { pointer: string }[]).map(({ pointer }) => pointer)).toEqual(['/body/email', '/body/password'])
  })

  test('a registration with an invalid token is refused with that reason', async () => {
    const answer = await register({ email: 'token@sluice.example', password }, 'Bearer not.a.token')
    expect(answer.status).toBe(401)
    expect(answer.headers.get('www-authenticate')).toBe('Bearer realm="sluice", error="invalid_token"')
  })

  test('a registration is one line of the log, with the id of the user and without the email', async () => {
    const answer = await register({ email: 'logged@sluice.example', password })
    const id = answer.headers.get('location')!.slice('/users/'.length)
    const lines = platform()
      .logged()
      .split('\n')
      .filter(line => line.includes(id))
    expect(lines.map(line => JSON.parse(line) as unknown)).toEqual([
      expect.objectContaining({ level: 'info', user: id, msg: 'user registered', request_id: answer.headers.get('x-request-id') }),
    ])
    expect(platform().logged()).not.toContain('logged@sluice')
  })

  test('no password and no email is in the log or in an answer', async () => {
    const secret = 'a password that is nowhere'
    const answers = [
      await register({ email: 'quiet@sluice.example', password: secret }),
      await register({ email: 'quiet@sluice.example', password: secret }),
      await register({ email: 'quiet', password: secret }),
      await call(platform().url, 'POST', '/tokens', { body: { email: 'quiet@sluice.example', password: `${secret}!` } }),
    ]
    for (const text of [platform().logged(), ...answers.map(answer => answer.text)]) {
      expect(text).not.toContain(secret)
      expect(text).not.toContain('quiet@')
    }
  })

  test('the table contains no password', async () => {
    await register({ email: 'stored@sluice.example', password })
    const [row] = await platform().database.query(
      "SELECT users::text AS text FROM control_plane.users WHERE email = 'stored@sluice.example'",
    )
    expect(row?.text).toContain('$argon2id$v=19$')
    expect(row?.text).not.toContain(password)
  })
})
