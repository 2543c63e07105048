// A password change immediately ends the tokens issued before it.

import { expect, test } from 'vitest'
import { deriveKey } from '../../../config/secrets.ts'
import { openAuthentication } from '../../../control-plane/access/authentication.ts'
import { openFailedAttempts } from '../../../control-plane/access/failed-attempts.ts'
import { openAccessChanges } from '../../../control-plane/access-changes.ts'
import type { AccessChange } from '../../../control-plane/client.ts'
import type { UserId } from '../../../control-plane/ids.ts'
import { openApiKeys } from '../../../control-plane/keys/store.ts'
import { openRelationalPolicies } from '../../../control-plane/policies/relational.ts'
import { openUnknownKeys } from '../../../control-plane/requests/unknown-keys.ts'
import { openTokens } from '../../../control-plane/tokens/store.ts'
import { argon2id, openPasswords } from '../../../control-plane/users/passwords.ts'
import { openUsers, type Users } from '../../../control-plane/users/store.ts'
import { openTokenVersions } from '../../../control-plane/users/token-versions.ts'
import { itself } from '../../../control-plane/writes.ts'
import { describePlatform, masterKey, recordingLogger, writesOn } from '../platform.ts'

describePlatform('password change', platform => {
  /** The users of one instance of the platform. */
  function open(derive = argon2id): { users: Users; changes: AccessChange[] } {
    const { database } = platform()
    const accessChanges = openAccessChanges(recordingLogger().logger)
    const heard: AccessChange[] = []
    accessChanges.onChange(change => void heard.push(change))
    const users = openUsers({
      database,
      policies: openRelationalPolicies(database),
      writes: writesOn(database, accessChanges),
      passwords: openPasswords(derive),
      versions: openTokenVersions(database),
    })
    return { users, changes: heard }
  }
  test('an unknown email is looked up with the same work as a wrong password', async () => {
    let derivations = 0
    const { users } = open((password, parameters) => {
      derivations++
      return argon2id(password, parameters)
    })
    const { email } = await platform().user()
    for (const address of [email, 'nobody@sluice.example']) {
      derivations = 0
      expect(await users.recognise({ email: address, password: 'wrong horse battery' })).toBeUndefined()
      expect(derivations).toBe(1)
    }
  })

  const tokens = openTokens([deriveKey(masterKey, 'tokens')], { lifetimeSeconds: 60 })

  test('the token works before and not after, the new password gives one that works, and listeners are notified', async () => {
    const { users, changes } = open()
    const apiKeys = openApiKeys(platform().database, writesOn(platform().database))
    const unknownKeys = openUnknownKeys(openFailedAttempts(platform().database, masterKey))
    const { userOf } = openAuthentication({ tokens, users, apiKeys, unknownKeys })
    const { id, email, password } = await platform().user()
    const before = await users.recognise({ email, password })
    const token = await tokens.issue({ user: before!.user, version: before!.tokenVersion })
    expect(await userOf(token)).toBe(id)

    await users.changePassword(itself, id as UserId, 'another horse battery')
    expect(await userOf(token)).toBeUndefined()
    expect(changes).toEqual([{ kind: 'user', user: id }])
    expect(await users.recognise({ email, password })).toBeUndefined()
    const after = await users.recognise({ email, password: 'another horse battery' })
    expect(await userOf(await tokens.issue({ user: after!.user, version: after!.tokenVersion }))).toBe(id)
  })

  test('a change whose old password was replaced meanwhile changes nothing', async () => {
    const { users } = open()
    const { id, email, password } = await platform().user()
    const { user, tokenVersion } = (await users.recognise({ email, password }))!
    await users.changePassword(itself, user, 'set by the chief')
    expect(await users.changePassword(itself, user, 'of the thief', { ifVersion: tokenVersion })).toBe(false)
    expect(await users.recognise({ email, password: 'set by the chief' })).toMatchObject({ user: id })
  })

  test('on a server, a change by another instance takes effect immediately; on the embedded database a version is read once', async () => {
    const { database } = platform()
    const { id } = await platform().user()
    let asked = 0
    const counted = {
      ...database,
      query: (...query: Parameters<typeof database.query>) => (asked++, database.query(...query)),
    } as typeof database
    const versions = openTokenVersions(counted)
    expect([await versions.of(id as UserId), await versions.of(id as UserId)]).toEqual([1, 1])
    expect(asked).toBe(database.kind === 'embedded' ? 1 : 2)
    await open().users.changePassword(itself, id as UserId, 'another horse battery')
    if (database.kind === 'embedded') versions.forget(id as UserId)
    expect(await versions.of(id as UserId)).toBe(2)
  })

  test('a version that was being read while it changed is not cached', async () => {
    const { database } = platform()
    const { id } = await platform().user()
    let duringQuery = async (): Promise<void> => undefined
    const slow = {
      ...database,
      query: async (...query: Parameters<typeof database.query>) => {
        const rows = await database.query(...query)
        await duringQuery()
        return rows
      },
    } as typeof database
    const versions = openTokenVersions(slow)
    duringQuery = async () => {
      await database.query('UPDATE control_plane.users SET token_version = token_version + 1 WHERE id = $1', [id])
      versions.forget(id as UserId)
    }
    expect(await versions.of(id as UserId)).toBe(1)
    duringQuery = async () => undefined
    expect(await versions.of(id as UserId)).toBe(2)
  })
})
