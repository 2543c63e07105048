// The master key and the keys derived from it.

import { chmodSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import {
  createSecretFile,
  deriveKey,
  generatePassword,
  generateSecret,
  openMasterKeys,
  parseMasterKeys,
  replaceSecretFile,
} from '../../config/secrets.ts'
import { temporaryFolder } from '../temporary-folder.ts'

test('a key is created once, readable by its owner only, and does not change', async () => {
  const path = join(temporaryFolder(), 'master-key')
  const [made, ...others] = await openMasterKeys(path)
  expect([made.length, others]).toEqual([32, []])
  expect(statSync(path).mode & 0o777).toBe(0o600)
  expect(readFileSync(path, 'utf8')).toBe(`${made.toString('base64url')}\n`)
  expect(await openMasterKeys(path)).toEqual([made])
})

test('two processes that create it at the same time get the same key, and leave nothing else behind', async () => {
  const place = temporaryFolder()
  const keys = await Promise.all(Array.from({ length: 8 }, () => openMasterKeys(join(place, 'master-key'))))
  expect(new Set(keys.map(([key]) => key.toString('hex')))).toHaveLength(1)
  expect(readdirSync(place)).toEqual(['master-key'])
})

test('a file that others can read is refused with what to do', async () => {
  const path = join(temporaryFolder(), 'master-key')
  await openMasterKeys(path)
  chmodSync(path, 0o640)
  await expect(openMasterKeys(path)).rejects.toThrow(`${path} has mode 0640, so others can read it: run chmod 600 ${path}`)
})

test.each(['', 'short', `${'A'.repeat(42)}!`, 'A'.repeat(44)])('a file with %j is refused, and not replaced', async text => {
  const path = join(temporaryFolder(), 'master-key')
  writeFileSync(path, text, { mode: 0o600 })
  await expect(openMasterKeys(path)).rejects.toThrow('does not contain a master key')
  expect(readFileSync(path, 'utf8')).toBe(text)
})

test('the refusal does not show the invalid text', () => {
  expect(() => parseMasterKeys('hidden', 'SVC_MASTER_KEY')).toThrow(/^SVC_MASTER_KEY does not contain a master key((?!hidden).)*$/)
})

test('several are separated by commas or line ends, in the given order', () => {
  const [first, second] = [generateSecret(), generateSecret()]
  const keys = [first, second].map(text => Buffer.from(text, 'base64url'))
  for (const divider of [',', ', ', '\n', '\r\n', ',\n']) expect(parseMasterKeys(`${first}${divider}${second}\n`, 'it')).toEqual(keys)
  for (const text of [`${first},`, `,${first}`, `${first},,${second}`, `${first} ${second}`])
    expect(() => parseMasterKeys(text, 'it')).toThrow('it does not contain a master key')
  expect(() => parseMasterKeys(`${first},${second},${first}`, 'it')).toThrow('it contains a master key twice: list each once')
})

test('a purpose always has the same key, and another purpose another (RFC 5869, HKDF-SHA256)', () => {
  const masterKey = Buffer.alloc(32, 7)
  expect(deriveKey(masterKey, 'tokens').toString('hex')).toBe('6920295d164f23abccd5ee2c53c9791367de2ae5f01bf54f0ca609c05ed70cd8')
  expect(deriveKey(masterKey, 'tokens')).not.toEqual(deriveKey(masterKey, 'thing-keys'))
})

test('a password has 100 random bits in letters that are not easily confused', () => {
  const passwords = new Set(Array.from({ length: 100 }, generatePassword))
  expect(passwords).toHaveLength(100)
  for (const password of passwords) expect(password).toMatch(/^[0-9a-hjkmnp-tv-z]{5}(-[0-9a-hjkmnp-tv-z]{5}){3}$/)
})

test('a secret file is never replaced', async () => {
  const path = join(temporaryFolder(), 'admin-password')
  expect(await createSecretFile(path, 'first')).toBe(true)
  expect(await createSecretFile(path, 'second')).toBe(false)
  expect(readFileSync(path, 'utf8')).toBe('first\n')
})

test('a secret file is replaced atomically, with mode 0600, and leaves nothing else behind', async () => {
  const folder = temporaryFolder()
  const path = join(folder, 'master-key')
  await createSecretFile(path, 'first')
  await replaceSecretFile(path, 'second')
  expect([readFileSync(path, 'utf8'), statSync(path).mode & 0o777, readdirSync(folder)]).toEqual(['second\n', 0o600, ['master-key']])
  await expect(replaceSecretFile(join(folder, 'none', 'master-key'), 'x')).rejects.toThrow(/master-key cannot be written \(ENOENT\)/)
})
