// Publicly known secrets, which only production refuses.

import { expect, test } from 'vitest'
import { isKnownSecret, knownSecretFaults } from '../../config/production.ts'

test.each([
  'admin',
  'password1',
  'Password123!',
  'change-me',
  'changeme-changeme',
  'sluice_secret',
  'correct horse battery',
  'postgres',
  '12345678',
  '1234567890123456',
  'aaaaaaaaaaaaaaaa',
  'A'.repeat(43),
  '',
])('%j is known', secret => expect(isKnownSecret(secret)).toBe(true))

test.each(['x7kq2-m3p4d-9w8vh-t5z6n', 'f3a9c1e07b5d', 'a-token-that-processes-share', 'sluice-x7kq2', 'Bcc'])('%j is not', secret =>
  expect(isKnownSecret(secret)).toBe(false),
)

test('only production refuses them, all together and without showing them', () => {
  const secrets = { 'admin.password': 'password1', 'internal.token': undefined, 'database.url': 'x7kq2-m3p4d', master_key: 'A'.repeat(43) }
  expect(knownSecretFaults('development', secrets)).toEqual([])
  const faults = knownSecretFaults('production', secrets)
  expect(faults.map(({ place }) => place)).toEqual(['admin.password', 'master_key'])
  expect(JSON.stringify(faults)).not.toMatch(/password1|AAAA/)
})
