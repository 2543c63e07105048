// Password hashes: what they contain, and that they cost the same for everyone.

import { expect, test } from 'vitest'
import { argon2id, openPasswords } from '../../../control-plane/users/passwords.ts'

test('the hash contains its parameters, and matches only its password', async () => {
  const passwords = openPasswords()
  const hash = await passwords.hash('correct horse')
  expect(hash).toMatch(/^\$argon2id\$v=19\$m=19456,t=2,p=1\$[A-Za-z0-9+/]{22}\$[A-Za-z0-9+/]{43}$/)
  expect(await passwords.matches('correct horse', hash)).toBe(true)
  expect(await passwords.matches('correct horsf', hash)).toBe(false)
  expect(await passwords.matches('', hash)).toBe(false)
})

test('a hash made with other parameters is checked with those', async () => {
  // argon2id of "password" with m=256, t=2, p=1 and salt "somesalt": the test vector of the reference implementation's test.c.
  const hash = '$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4'
  expect(await openPasswords().matches('password', hash)).toBe(true)
  expect(await openPasswords().matches('passwore', hash)).toBe(false)
})

test('two hashes of one password differ', async () => {
  const passwords = openPasswords()
  expect(await passwords.hash('correct horse')).not.toBe(await passwords.hash('correct horse'))
})

test('a password in two forms of Unicode is the same password (RFC 8265 §4.2)', async () => {
  const passwords = openPasswords()
  expect(await passwords.matches('cafe\u0301 au lait', await passwords.hash('caf\u00e9 au lait'))).toBe(true)
})

test('without a hash nothing matches, after the same work', async () => {
  const work: object[] = []
  const passwords = openPasswords((password, parameters) => {
    const { memory, passes, parallelism, tagLength, nonce } = parameters
    work.push({ memory, passes, parallelism, tagLength, saltBytes: (nonce as Uint8Array).byteLength })
    return argon2id(password, parameters)
  })
  const hash = await passwords.hash('correct horse')
  expect(await passwords.matches('wrong', hash)).toBe(false)
  expect(await passwords.matches('wrong', undefined)).toBe(false)
  expect(work).toEqual([work[0], work[0], work[0]])
})

test('a stored hash of an unknown form is an error that does not repeat it', async () => {
  const failed = openPasswords().matches('password', '$2b$12$abcdefghijklmnopqrstuv')
  await expect(failed).rejects.toThrow(/unknown form/)
  await expect(failed).rejects.not.toThrow(/abcdefgh/)
})
