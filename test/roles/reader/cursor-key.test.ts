// The key of cursors: where it comes from, and that it does not change.

import { expect, test } from 'vitest'
import { cursorKeyOf } from '../../../roles/reader/cursor-key.ts'

const token = 'a-token-that-processes-share'
const cursorKey = Buffer.alloc(32, 5).fill(7, 3).toString('base64url')

test('a given key is used unchanged, whatever the token', () => {
  for (const given of [{ cursorKey }, { cursorKey, token }]) {
    const { key, isShared } = cursorKeyOf(given)
    expect([Buffer.from(key).toString('base64url'), isShared]).toEqual([cursorKey, true])
  }
})

test('a token always gives the same key: another one would invalidate all existing cursors', () => {
  const { key, isShared } = cursorKeyOf({ token })
  expect([Buffer.from(key).toString('hex'), isShared]).toEqual(['09365310ef6f050a9fc707ae42ea353851879c67dcb2b20f7261c26982ac30c9', true])
  expect(cursorKeyOf({ token: `${token}s` }).key).not.toEqual(key)
  // The first of several, which is the one sent to the control plane.
  expect(cursorKeyOf({ token: `${token},another-token-of-theirs` }).key).toEqual(key)
})

test('without either, each process has its own key', () => {
  const [first, second] = [cursorKeyOf({}), cursorKeyOf({})]
  expect([first.isShared, first.key.length]).toEqual([false, 32])
  expect(first.key).not.toEqual(second.key)
})
