// Which emails and passwords a registration accepts.

import { expect, test } from 'vitest'
import { checkNewCredentials, normaliseEmail } from '../../../control-plane/users/credentials.ts'
import { HttpError } from '../../../http/errors.ts'

const password = 'correct horse battery'

function pointers(email: string, password: string): string[] {
  try {
    checkNewCredentials({ email, password })
    return []
  } catch (error) {
    return (error as HttpError).faults.map(({ pointer }) => pointer)
  }
}

test.each([
  'user@example.com',
  'first.last+tag@sub.example.com',
  'admin@localhost',
  'Ünïcode@exämple.com',
  "o'brien@example.com",
  '用户@例子.公司',
  `${'l'.repeat(64)}@example.com`,
])('%s is an email', email => expect(pointers(email, password)).toEqual([]))

test.each([
  '',
  'user',
  '@example.com',
  'user@',
  'a@b@example.com',
  'two words@example.com',
  'user@exa mple.com',
  'user@-example.com',
  'user@example..com',
  '.user@example.com',
  'us..er@example.com',
  'user@[127.0.0.1]',
  '"quoted"@example.com',
  'user\u200b@example.com',
  'us\u034fer@example.com',
  'user\ufe0f@example.com',
  'user@exam\u3164ple.com',
  'user@example\u180b.com',
  'user@example.com\u0000',
  `${'l'.repeat(65)}@example.com`,
  `user@${'d'.repeat(250)}.com`,
])('%j is not an email', email => expect(pointers(email, password)).toEqual(['/body/email']))

test('case, outer spaces and the composition of characters do not make another email', () => {
  expect(normaliseEmail(' User@Example.COM ')).toBe('user@example.com')
  expect(normaliseEmail('u\u0308ser@example.com')).toBe(normaliseEmail('\u00fcser@example.com'))
})

test('a password has at least 8 characters, counted as people count, and at most 1,024 bytes', () => {
  expect(pointers('a@b', '12345678')).toEqual([])
  expect(pointers('a@b', '1234567')).toEqual(['/body/password'])
  expect(pointers('a@b', '😀😀😀😀')).toEqual(['/body/password'])
  expect(pointers('a@b', '😀'.repeat(8))).toEqual([])
  expect(pointers('a@b', 'x'.repeat(1024))).toEqual([])
  expect(pointers('a@b', 'x'.repeat(1025))).toEqual(['/body/password'])
  expect(pointers('a@b', 'é'.repeat(513))).toEqual(['/body/password'])
})

test('a fault names what is allowed and repeats neither email nor password', () => {
  try {
    checkNewCredentials({ email: 'my secret address', password: 'seven77' })
    expect.unreachable()
  } catch (error) {
    expect(error).toBeInstanceOf(HttpError)
    expect((error as HttpError).faults).toEqual([
      { pointer: '/body/email', detail: 'is not an email: give one such as name@example.com' },
      { pointer: '/body/password', detail: 'is too short: give at least 8 characters' },
    ])
  }
})
