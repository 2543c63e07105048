// Thing keys: stored ciphertexts can only be decrypted with the right key and for the right thing.

import { expect, test } from 'vitest'
import { newThingId } from '../../../control-plane/ids.ts'
import { openThingKeys } from '../../../control-plane/things/keys.ts'
import { call, makeSite } from '../../up/operator.ts'
import { describePlatform, masterKey } from '../platform.ts'

const keys = openThingKeys([masterKey])
const thing = newThingId()

test('a key is a UUID, its ciphertext decrypts to it, and two encryptions for one thing differ', () => {
  const { key, ciphertext } = keys.issue(thing)
  expect(key).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
  expect(keys.decrypt(thing, ciphertext)).toBe(key)
  expect(openThingKeys([masterKey]).decrypt(thing, ciphertext)).toBe(key)
  expect(ciphertext).toHaveLength(4 + 12 + 16 + 36)
  expect(ciphertext.includes(key)).toBe(false)
  expect(keys.issue(thing).ciphertext.subarray(4, 16)).not.toEqual(ciphertext.subarray(4, 16))
})

test('the look-up of a key is always the same under one master key, and different under another', () => {
  const { key, lookup } = keys.issue(thing)
  expect(openThingKeys([masterKey]).lookups(key)).toEqual([lookup])
  expect(openThingKeys([Buffer.alloc(32, 8)]).lookups(key)).not.toEqual([lookup])
})

test('a ciphertext of another thing cannot be decrypted', () => {
  const { ciphertext } = keys.issue(thing)
  const other = newThingId()
  expect(() => keys.decrypt(other, ciphertext)).toThrow(`the stored key of thing ${other} cannot be decrypted`)
})

test('a ciphertext with any byte changed, or cut short, cannot be decrypted', () => {
  const { ciphertext } = keys.issue(thing)
  for (let index = 0; index < ciphertext.length; index++) {
    const changed = Buffer.from(ciphertext)
    changed[index]! ^= 1
    expect(() => keys.decrypt(thing, changed)).toThrow(thing)
  }
  for (const length of [0, 4, 16, 31, 32, ciphertext.length - 1])
    expect(() => keys.decrypt(thing, ciphertext.subarray(0, length))).toThrow(thing)
})

test('the error for a ciphertext written under another master key says so', () => {
  const { ciphertext } = openThingKeys([Buffer.alloc(32, 8)]).issue(thing)
  expect(() => keys.decrypt(thing, ciphertext)).toThrow(/is encrypted with the key [0-9a-f]{8}, but this process has [0-9a-f]{8}/)
})

describePlatform('thing keys at rest', platform => {
  test('no key is in the database or in the log', async () => {
    const { device, owner, thing } = await makeSite(platform().url)
    const key = device.replace('Thing ', '')
    await call(platform().url, 'GET', `/things/${thing}`, { authorization: owner })
    await call(platform().url, 'GET', '/things', { authorization: device })
    const rows = await platform().database.query<{ text: string }>('SELECT things::text AS text FROM control_plane.things')
    const dump = rows.map(({ text }) => text).join('\n')
    expect(dump).toContain(thing)
    for (const form of [key, Buffer.from(key).toString('hex'), key.replaceAll('-', '')]) {
      expect(dump).not.toContain(form)
      expect(platform().logged()).not.toContain(form)
    }
  })
})
