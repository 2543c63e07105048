// The sections of the control plane, under the names that the specification gives them.

import { Type } from 'typebox'
import { expect, test } from 'vitest'
import { loadOptions, OptionsError } from '../../config/options/options.ts'
import { tokensOptions, usersOptions } from '../../control-plane/options.ts'

const schema = Type.Object({ users: usersOptions, tokens: tokensOptions })

test('self-registration is open by default and a token is valid for ten hours', () => {
  expect(loadOptions(schema, { environment: {} })).toEqual({
    users: { allowSelfRegister: true, registrationsPerHour: 60, boundSelfRegistered: true },
    tokens: { lifetimeSeconds: 36_000 },
  })
})

test('SVC_USERS_ALLOW_SELF_REGISTER closes self-registration with the string false, and accepts only true and false (SPEC §5)', () => {
  const load = (value: string) => loadOptions(schema, { environment: { SVC_USERS_ALLOW_SELF_REGISTER: value } })
  expect(load('false').users.allowSelfRegister).toBe(false)
  expect(load('true').users.allowSelfRegister).toBe(true)
  expect(() => load('no')).toThrow(OptionsError)
})
