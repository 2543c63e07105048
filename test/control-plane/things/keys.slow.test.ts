// Thing keys: what is stored of them opens with the right key and the right thing only.

import { expect, test } from 'vitest'
import { newThingId } from '../../../control-plane/ids.ts'
import { openThingKeys } from '../../../control-plane/things/keys.ts'
import { call, makeSite } from '../../up/operator.ts'
import { describePlatform, masterKey } from '../platform.ts'

const keys = openThingKeys([masterKey])
const thing = newThingId()

test('a key is a UUID, its ciphertext gives it back, and two encryptions of one thing differ', () => {
  const { key, ciphertext } = keys.issue(thing)
  expect(key).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
  expect(keys.decrypt(thing, ciphertext)).toBe(key)
  expect(openThingKeys([masterKey]).decrypt(thing, ciphertext)).toBe(key)
  expect(ciphertext).toHaveLength(4 + 12 + 16 + 36)
  expect(ciphertext.includes(key)).toBe(false)
  expect(keys.issue(thing).ciphertext.subarray(4, 16)).not.toEqual(ciphertext.subarray(4, 16))
})

test('the look-up of a key is always the same under one master key, and another under another', () => {
  const { key, lookup } = keys.issue(thing)
  expect(openThingKeys([masterKey]).lookups(key)).toEqual([lookup])
  expect(openThingKeys([Buffer.alloc(32, 8)]).lookups(key)).not.toEqual([lookup])
})

test('a ciphertext of another thing does not open', () => {
  const { ciphertext } = keys.issue(thing)
  const other = newThingId()
  expect(() => keys.decrypt(other, ciphertext)).toThrow(`the stored key of thing ${other} does not open`)
})

test('a ciphertext with any byte changed, or cut short, does not open', () => {
  const { ciphertext } = keys.issue(thing)
  for (let index = 0; index < ciphertext.length; index++) {
    const changed = Buffer.from(ciphertext)
    changed[index]! ^= 1
    expect(() => keys.decrypt(thing, changed)).toThrow(thing)
  }
  for (const length of [0, 4, 16, 31, 32, ciphertext.length - 1])
    expect(() => keys.decrypt(thing, ciphertext.subarray(0, length))).toThrow(thing)
})

test('a ciphertext written under another master key says so', () => {
  const { ciphertext } = openThingKeys([Buffer.alloc(32, 8)]).issue(thing)
  expect(() => keys.decrypt(thing, ciphertext)).toThrow(/is encrypted under the key [0-9a-f]{8}, and this process has [0-9a-f]{8}/)
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
