// Starting: the first time, again, at the same time, under another master key, and with or without an administrator.

import { beforeEach, expect, test } from 'vitest'
import { type ControlPlane, ControlPlaneStartError, isInstalled, openControlPlane } from '../../control-plane/index.ts'
import { openRelationalPolicies } from '../../control-plane/policies/relational.ts'
import { ownCertificates } from './certificates/certificates-options.ts'
import { describeOnDatabases, masterKey, ownPolicies, recordingLogger } from './platform.ts'

const options = {
  users: { allowSelfRegister: true, registrationsPerHour: 0, boundSelfRegistered: false },
  tokens: { lifetimeSeconds: 3600 },
  audit: { retentionDays: 365 },
  policies: ownPolicies,
  certificates: ownCertificates,
  compatibility: 'none' as const,
}
const credentials = { email: 'chief@sluice.example', password: 'the chief of them all' }

describeOnDatabases('start', database => {
  beforeEach(() => database().execute('DROP SCHEMA IF EXISTS control_plane CASCADE'))

  const open = (key = masterKey): Promise<ControlPlane> =>
    openControlPlane({ database: database(), masterKeys: [key], options, logger: recordingLogger().logger })

  test('four instances that start at once on an empty database all start, and everyone may register', async () => {
    const planes = await Promise.all([open(), open(), open(), open()])
    for (const plane of planes) await plane.check()
    expect(await openRelationalPolicies(database()).list({ object: 'users' })).toEqual([
      { subject: '*', relation: 'create', object: 'users' },
    ])
    expect(await planes[0].hasAdministrator()).toBe(false)
  })

  test('another master key stops the start with a sentence and changes nothing; the right one still starts', async () => {
    await open()
    const wrong = open(Buffer.alloc(32, 8))
    await expect(wrong).rejects.toBeInstanceOf(ControlPlaneStartError)
    await expect(wrong).rejects.toThrow(
      /encrypted with another master key: restore the key it was created with, from the file master-key of its data folder/,
    )
    await (await open()).check()
  })

  test('whether a database was installed under a key is known before the key is needed, and nothing is written', async () => {
    expect(await isInstalled(database())).toBe(false)
    expect(await isInstalled(database())).toBe(false)
    await open()
    expect(await isInstalled(database())).toBe(true)
    await database().execute('DELETE FROM control_plane.installation')
    expect(await isInstalled(database())).toBe(false)
  })

  test('the administrator is created once, as a member of users and authorities, and a second email changes nothing', async () => {
    const plane = await open()
    expect(await plane.ensureAdministrator(credentials)).toBe('created')
    expect(await plane.hasAdministrator()).toBe(true)
    expect(await plane.ensureAdministrator(credentials)).toBe('exists')
    expect(await plane.ensureAdministrator({ ...credentials, email: 'other@sluice.example' })).toBe('exists')
    const users = await database().query<{ id: string }>('SELECT id FROM control_plane.users')
    expect(users).toHaveLength(1)
    const policies = await openRelationalPolicies(database()).list({ subject: users[0]!.id as never })
    expect(new Set(policies.map(({ object, relation }) => `${object}#${relation}`))).toEqual(
      new Set(['users#member', 'authorities#member']),
    )
  })

  test('of several instances at once, one creates the administrator', async () => {
    const plane = await open()
    const outcomes = await Promise.all([1, 2, 3].map(() => plane.ensureAdministrator(credentials)))
    expect(outcomes.sort()).toEqual(['created', 'exists', 'exists'])
  })

  test.each([
    ['no email', { ...credentials, email: 'chief' }, "the administrator's email is not an email: give one such as name@example.com"],
    ['a short password', { ...credentials, password: 'seven77' }, "the administrator's password is too short: give at least 8 characters"],
  ])('%s for the administrator stops with a sentence', async (_name, bad, sentence) => {
    const plane = await open()
    const failed = plane.ensureAdministrator(bad)
    await expect(failed).rejects.toBeInstanceOf(ControlPlaneStartError)
    await expect(failed).rejects.toThrow(sentence)
    expect(await plane.hasAdministrator()).toBe(false)
  })

  test('a plain user with that email is not promoted', async () => {
    const plane = await open()
    await plane.ensureAdministrator(credentials)
    const policies = openRelationalPolicies(database())
    const [user] = await database().query<{ id: string }>('SELECT id FROM control_plane.users')
    await policies.transaction((_, policyWriter) =>
      policyWriter.remove([{ subject: user!.id as never, relation: 'member', object: 'authorities' }]),
    )
    await expect(plane.ensureAdministrator(credentials)).rejects.toThrow(/belongs to a plain user/)
    expect(await plane.hasAdministrator()).toBe(false)
  })
})
