// Starting: the first time, again, at the same time, under another master key, and with or without an administrator.

import { cp, readdir, readFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { deriveKey } from '../../config/secrets.ts'
import { foldedName } from '../../control-plane/entity.ts'
import { type ControlPlane, ControlPlaneStartError, isInstalled, openControlPlane } from '../../control-plane/index.ts'
import { migrations } from '../../control-plane/installation.ts'
import { openRelationalPolicies } from '../../control-plane/policies/relational.ts'
import type { Queries } from '../../database/database.ts'
import { migrate } from '../../database/migrate.ts'
import { temporaryFolder } from '../temporary-folder.ts'
import { type Answer, call } from '../up/operator.ts'
import { startVaultStandIn } from './certificates/authorities/vault-stand-in.ts'
import { ownCertificates } from './certificates/certificates-options.ts'
import { describeOnDatabases, masterKey, openPlatform, ownPolicies, type Platform, recordingLogger } from './platform.ts'
import { fullLayout } from './provisioning/steps.ts'
import { certificatesOf } from './provisioning/vault.ts'

const options = {
  users: { allowSelfRegister: true, registrationsPerHour: 0 },
  tokens: { lifetimeSeconds: 3600 },
  audit: { retentionDays: 365 },
  policies: ownPolicies,
  certificates: ownCertificates,
  compatibility: 'none' as const,
}
const credentials = { email: 'chief@sluice.example', password: 'the chief of them all' }

const firstRelease = fileURLToPath(new URL('first-release.sql', import.meta.url))
const firstOwner = 'owner@sluice.example'

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

  test('a database of the first release is migrated with everything in it', async () => {
    await database().execute(await readFile(firstRelease, 'utf8'))
    const channelSql = `
      INSERT INTO control_plane.channels (id, owner, name) SELECT gen_random_uuid(), owner, $1 FROM control_plane.channels LIMIT 1`
    for (const name of ['Οδός Ερμού', 'HAUPTSTRASSE', 'Cafe\u0301']) await database().query(channelSql, [name])
    const platform = await openPlatform(database())
    const { url, plane } = platform
    const signedIn = await call(url, 'POST', '/tokens', { body: { email: firstOwner, password: 'correct horse battery' } })
    const get = (path: string): Promise<Answer> => call(url, 'GET', path, { authorization: `Bearer ${String(signedIn.json?.['token'])}` })
    const { things } = (await get('/things?name=\u00c9LAN&metadata={"floor":3}')).json as { things: { id: string; key: string }[] }
    expect(things).toMatchObject([{ name: '\u00c9lan', metadata: { floor: 3 } }])
    const [sensor] = (await get('/things?name=sensor')).json!['things'] as { id: string; key: string }[]
    const [channel] = (await get(`/things/${sensor!.id}/channels`)).json!['channels'] as { id: string; name: string }[]
    expect(channel).toMatchObject({ name: 'site' })
    const access = (secret: string) =>
      plane.access.authorize({ credential: { scheme: 'Thing', secret }, channel: channel!.id, action: 'publish' })
    expect([await access(sensor!.key), await access(things[0]!.key)]).toMatchObject([{ allowed: true }, { allowed: false }])
    expect((await get(`/things/${sensor!.id}`)).headers.get('etag')).toBe('"1"')
    for (const [asked, name] of [
      ['ΟΔΌΣ', 'Οδός Ερμού'],
      ['straße', 'HAUPTSTRASSE'],
      ['CAF\u00c9', 'Cafe\u0301'],
    ])
      expect((await get(`/channels?name=${asked}`)).json).toMatchObject({ total: 1, channels: [{ name }] })
    // By an instance of the first release that is still running.
    await database().query(channelSql, ['Late Comer'])
    expect((await get('/channels?name=late')).json).toMatchObject({ channels: [{ name: 'Late Comer' }] })
    await platform.close()
  })

  describe('names of an earlier version', () => {
    /** More than two chunks. Two thirds are the same in lower case and folded. */
    const names = Array.from({ length: 2_100 }, (_, nth) => `${['Sensor', 'ΟΔΟΣ Straße', 'Ünder \u00c5'][nth % 3]} ${nth}`)
    const idOf = (nth: number): string => `00000000-0000-4000-8000-${String(nth).padStart(12, '0')}`
    const owner = idOf(0)
    const columns = {
      things: ['id, key_ciphertext, key_lookup', `id, ''::bytea, id::text::bytea`],
      channels: ['id', 'id'],
      groups: ['id', 'id'],
      bootstrap_configs: [
        'thing, external_id, key_lookup, key_id, channels, state',
        `id, id::text, id::text::bytea, ''::bytea, '{}'::uuid[], 0`,
      ],
    }
    /** What an instance of the earlier version does. */
    const rename = (queries: Queries, name: string) =>
      queries.query('UPDATE control_plane.things SET name = $2, name_folded = $3 WHERE id = $1', [idOf(1), name, name.toLowerCase()])
    const folded = async () =>
      (await database().query('SELECT name_folded FROM control_plane.things WHERE id = $1', [idOf(1)]))[0]!['name_folded']

    beforeEach(async () => {
      const folder = `${temporaryFolder()}/migrations`
      const isEarlier = (path: string): boolean => path === migrations.folder || basename(path) < '0034'
      await cp(migrations.folder, folder, { recursive: true, filter: isEarlier })
      await migrate(database(), { ...migrations, folder })
      await database().query(`INSERT INTO control_plane.users (id, email, password_hash) VALUES ($1, '', '')`, [owner])
      const check = deriveKey(masterKey, 'control-plane-check')
      await database().query('INSERT INTO control_plane.installation (key_check) VALUES ($1)', [check])
      const rows = JSON.stringify(names.map((name, nth) => ({ id: idOf(nth), name, folded: name.toLowerCase() })))
      for (const [table, [into, values]] of Object.entries(columns))
        await database().query(
          `INSERT INTO control_plane.${table} (owner, name, name_folded, ${into}) SELECT $1::uuid, name, folded, ${values}
           FROM json_to_recordset($2::json) AS row (id uuid, name text, folded text)`,
          [owner, rows],
        )
    })

    test('are folded in every table by the first start, also if three instances start at once, and no version changes', async () => {
      await Promise.all([open(), open(), open()])
      for (const table of Object.keys(columns)) {
        const stored = await database().query(`SELECT name, name_folded, version FROM control_plane.${table} ORDER BY ordinal`)
        expect(stored).toEqual(names.map(name => ({ name, name_folded: foldedName(name), version: 1 })))
      }
    })

    test('that are stored within a day after the migration are folded by the next start, and by one after it', async () => {
      await open()
      await rename(database(), 'Straße')
      await open()
      expect(await folded()).toBe('strasse')
      await database().execute(`UPDATE control_plane.installation SET names_to_fold_until = now() - interval '1 second'`)
      await rename(database(), 'ΟΔΟΣ')
      await open()
      expect(await folded()).toBe('οδοσ')
      await rename(database(), 'Straße')
      await open()
      expect(await folded()).toBe('straße')
    })

    test('do not replace those that are stored while a start folds them', async () => {
      const { starting } = await database().transaction(async transaction => {
        await rename(transaction, 'ΟΔΟΣ')
        const started = { starting: open() }
        const sql = `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`
        if (database().kind === 'server') await expect.poll(() => database().query(sql)).toHaveLength(1)
        return started
      })
      await starting
      expect(await folded()).toMatch(/^οδο[ςσ]$/)
    })
  })

  test('a start of this version keeps the issuer of the certificates of a mapping', async () => {
    const vault = await startVaultStandIn()
    onTestFinished(() => vault.stop())
    const options = { provisioning: { layout: fullLayout, externalKeyBytesMin: 8 }, certificates: certificatesOf(vault) }
    const body = { external_id: 'gateway', external_key: 'external key' }
    const map = async (on: Platform) => (await call(on.url, 'POST', '/mapping', { authorization: await on.administrator(), body })).json
    const before = await openPlatform(database(), options)
    await map(before)
    const found = await map(before)
    await before.close()
    const names = (await readdir(migrations.folder)).map(name => basename(name, '.sql')).filter(name => name >= '0032')
    for (const name of names.toSorted().toReversed()) {
      const [, down = ''] = (await readFile(join(migrations.folder, `${name}.sql`), 'utf8')).split('-- Down Migration')
      await database().execute(down.replaceAll(/ALTER TABLE |DROP (?:TABLE|INDEX|SEQUENCE) /g, '$&control_plane.'))
      await database().query('DELETE FROM control_plane.migrations WHERE name = $1', [name])
    }
    // As it was stored before: the whole answer to a repeated request.
    const { certificates, client_cert, ca_cert } = found!
    await database().query('UPDATE control_plane.mappings SET certificates = $1::json', [
      JSON.stringify({ certificates, client_cert, ca_cert }),
    ])
    const after = await openPlatform(database(), options)
    expect(found).toHaveProperty('certificates')
    expect(await map(after)).toEqual(found)
    await after.close()
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

  test('a migration counts earlier certificates for the owners of their things', async () => {
    const folder = `${temporaryFolder()}/migrations`
    const isEarlier = (path: string): boolean => path === migrations.folder || basename(path) < '0031'
    await cp(migrations.folder, folder, { recursive: true, filter: isEarlier })
    await migrate(database(), { ...migrations, folder })
    const [owner, kept, deleted] = [1, 2, 3].map(nth => `00000000-0000-4000-8000-00000000000${nth}`)
    await database().execute(`
      INSERT INTO control_plane.users (id, email, password_hash) VALUES ('${owner}', '', '');
      INSERT INTO control_plane.things (id, owner, name, name_folded, key_ciphertext, key_lookup) VALUES ('${kept}', '${owner}', '', '', '', '');
      INSERT INTO control_plane.certificates (serial, thing, authority, certificate, expires_at)
        SELECT thing, thing, 'builtin', '', now() FROM unnest(ARRAY['${kept}', '${deleted}']::uuid[]) AS thing`)
    await migrate(database(), migrations)
    expect(await database().query('SELECT thing, owner FROM control_plane.certificates ORDER BY thing')).toEqual([
      { thing: kept, owner },
      { thing: deleted, owner: null },
    ])
  })
})
