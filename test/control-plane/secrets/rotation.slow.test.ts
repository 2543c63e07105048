// Encrypting everything under the first master key: beside changes of the same rows, interrupted and repeated, and what still needs the old key.

import { beforeEach, describe, expect, test } from 'vitest'
import type { MasterKeys } from '../../../config/secrets.ts'
import { isInstalled } from '../../../control-plane/index.ts'
import { readRotation, rotateSecrets } from '../../../control-plane/secrets/rotation.ts'
import type { Database, Queries, SqlValue, Transaction } from '../../../database/database.ts'
import { type Answer, call, expectStatus } from '../../up/operator.ts'
import { absentId, describeOnDatabases, masterKey as oldKey, openPlatform, type Platform, type User, writesOn } from '../platform.ts'
import { fullLayout } from '../provisioning/steps.ts'

const newKey = Buffer.alloc(32, 8)
const both = [newKey, oldKey] as const

/** The database; `before` is called with each statement before it is sent, and the statement throws whatever it throws. */
function watched(database: Database, before: (sql: string) => Promise<void> | void): Database {
  const asking = (queries: Queries): Queries['query'] => {
    return async <Row extends Record<string, SqlValue>>(sql: string, values: readonly SqlValue[] = []) => {
      await before(sql)
      return queries.query<Row>(sql, values)
    }
  }
  return {
    ...database,
    query: asking(database),
    transaction: (work, signal) =>
      database.transaction(transaction => work({ ...transaction, query: asking(transaction) } satisfies Transaction), signal),
  }
}

describeOnDatabases('rotation of the master key', database => {
  let platform: Platform
  let user: User
  /** Keys of things that were created under the old key. */
  let things: { id: string; key: string }[]
  const platforms: Platform[] = []

  const open = async (masterKeys: MasterKeys): Promise<Platform> => {
    const opened = await openPlatform(database(), { masterKeys, compatibility: '0.13' })
    platforms.push(opened)
    return opened
  }
  beforeEach(async () => {
    for (const one of platforms.splice(0)) await one.close()
    if (await isInstalled(database())) await database().execute('DROP SCHEMA control_plane CASCADE')
    const before = await open([oldKey])
    user = await before.user()
    const many = Array.from({ length: 1_500 }, () => ({ name: 'thing' }))
    const made = await Promise.all(
      [many.slice(0, 1_000), many.slice(1_000)].map(body => call(before.url, 'POST', '/things/bulk', { authorization: user.token, body })),
    )
    things = made.flatMap(({ json }) => json!['things'] as typeof things)
    platform = await open(both)
    // A token of the new key, which stays valid.
    const { json } = await call(platform.url, 'POST', '/tokens', { body: { email: user.email, password: user.password } })
    user = { ...user, token: `Bearer ${json!['token'] as string}` }
    return async () => {
      for (const one of platforms.splice(0)) await one.close()
    }
  })

  const rotate = (on: Database = database(), masterKeys: MasterKeys = both): Promise<number> =>
    rotateSecrets({ database: on, writes: writesOn(on), masterKeys, onProgress: () => undefined })
  const ask = (method: string, path: string, body?: object, on = platform): Promise<Answer> =>
    call(on.url, method, path, { authorization: user.token, ...(body === undefined ? {} : { body }) })
  const shownKey = async (thing: string, on = platform): Promise<unknown> => (await ask('GET', `/things/${thing}`, undefined, on)).json?.key
  const isKnown = async (secret: string, on = platform): Promise<boolean> => {
    const access = await on.plane.access.authorize({ credential: { scheme: 'Thing', secret }, channel: absentId, action: 'publish' })
    return !access.allowed && access.reason === 'forbidden'
  }
  const replaceKey = async (thing: string, body: object = {}): Promise<string> =>
    (await ask('PATCH', `/things/${thing}/key`, body)).json!['key'] as string
  async function linesOfAudit(): Promise<number> {
    const sql = `SELECT count(*) AS lines FROM control_plane.audit WHERE action = 'secrets.rotate'`
    return Number((await database().query<{ lines: bigint }>(sql))[0]!.lines)
  }

  test('the state says how many thing keys are under which master key, and changes nothing', async () => {
    await ask('POST', '/things', { name: 'new' })
    const { masterKeyId, counts } = await readRotation(database(), both)
    expect(
      counts.map(count => [count.masterKeyId === masterKeyId, count.things]).sort((one, other) => Number(one[0]) - Number(other[0])),
    ).toEqual([
      [false, 1_500],
      [true, 1],
    ])
    await open([oldKey, newKey])
  })

  test('a thing whose key is replaced at that moment keeps its new key', async () => {
    const [first, second] = things.toSorted((one, other) => (one.id < other.id ? -1 : 1))
    const replaced: Promise<string>[] = []
    // Both if the key is replaced before the batch is read, and while it is written.
    const on = watched(database(), async sql => {
      if (sql.includes('SELECT EXISTS') && replaced.length === 0) replaced.push(Promise.resolve(await replaceKey(first!.id)))
      if (sql.includes('json_to_recordset') && replaced.length === 1) replaced.push(replaceKey(second!.id))
    })
    expect(await rotate(on)).toBe(1_499)
    const keys = await Promise.all(replaced)
    expect([await shownKey(first!.id), await shownKey(second!.id)]).toEqual(keys)
    for (const { key } of [first!, second!]) expect(await isKnown(key)).toBe(false)
    for (const key of keys) expect(await isKnown(key)).toBe(true)
  })

  test('the rotation waits for a locked thing, and writes the others meanwhile', async () => {
    // The embedded database runs one transaction after the other.
    if (database().kind === 'embedded') return
    const [held] = things
    const [holding, release] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    const holder = database().transaction(async queries => {
      await queries.query('UPDATE control_plane.things SET name = name WHERE id = $1', [held!.id])
      holding.resolve()
      await release.promise
    })
    await holding.promise
    const rotating = rotate()
    const left = async (): Promise<number[]> =>
      (await readRotation(database(), both)).counts.map(count => count.things).sort((one, other) => one - other)
    await expect.poll(left).toEqual([1, 1_499]).finally(release.resolve)
    await holder
    expect(await rotating).toBe(1_500)
  })

  test('an interrupted run leaves everything readable with both keys, and the next run does the rest', async () => {
    let batches = 0
    const on = watched(database(), sql => {
      if (sql.includes('json_to_recordset') && ++batches === 2) throw new Error('cut off')
    })
    await expect(rotate(on)).rejects.toThrow('cut off')
    for (const { id, key } of [things[0]!, things.at(-1)!]) expect([await shownKey(id), await isKnown(key)]).toEqual([key, true])
    await expect(open([newKey])).rejects.toThrow(/encrypted with another master key/)
    await open([oldKey, newKey])
    expect([await rotate(), await linesOfAudit()]).toEqual([500, 1])
    const after = await open([newKey])
    expect([await shownKey(things[0]!.id, after), await isKnown(things.at(-1)!.key, after)]).toEqual([things[0]!.key, true])
    await expect(open([oldKey])).rejects.toThrow(/encrypted with another master key/)
    expect([await rotate(), await linesOfAudit()]).toEqual([0, 1])
  })

  test('previous keys whose look-ups need the old key are counted until they expire; those that were replaced since are not', async () => {
    const [early, late] = things
    await replaceKey(early!.id, { grace_seconds: 3_600 })
    await rotate()
    await replaceKey(late!.id, { grace_seconds: 7_200 })
    const { previous } = await readRotation(database(), both)
    expect(previous.things).toBe(1)
    expect(Math.abs(Date.parse(previous.until!) - Date.now() - 3_600_000)).toBeLessThan(60_000)
    const after = await open([newKey])
    for (const [on, known] of [
      [platform, [true, true]],
      [after, [false, true]],
    ] as const)
      expect([await isKnown(early!.key, on), await isKnown(late!.key, on)]).toEqual(known)
    await database().query(`UPDATE control_plane.things SET previous_key_ends_at = now() WHERE id = $1`, [early!.id])
    expect((await readRotation(database(), both)).previous).toEqual({ things: 0, until: undefined })
  })

  test('after a replacement under the old key, the new key does not expire, and the previous one does', async () => {
    const { id, key: previous } = things[0]!
    const post = async (path: string, body: object) => (await ask('POST', path, body)).json!
    const [{ id: channel }] = (await post('/channels/bulk', [{ name: 'site' }]))['channels'] as [{ id: string }]
    await post('/connect', { channel_ids: [channel], thing_ids: [id] })
    const { json } = await ask('PATCH', `/things/${id}/key`, { grace_seconds: 3_600 }, await open([oldKey, newKey]))
    const accessOf = (secret: string) =>
      platform.plane.access.authorize({ credential: { scheme: 'Thing', secret }, channel, action: 'publish' })
    expect(await accessOf(json!['key'] as string)).toEqual({ allowed: true, publisher: id, owner: user.id })
    expect(await accessOf(previous)).toMatchObject({ allowed: true, endsMs: expect.any(Number) })
  })

  test('the key of the certificate authority is written under the new key, which is then enough to sign with the same authority', async () => {
    const issuerOf = async (on: Platform) =>
      (await ask('POST', '/certs', { thing_id: things[0]!.id, key_type: 'ec' }, on)).json?.['IssuingCA']
    const issuer = await issuerOf(await open([oldKey, newKey]))
    expect(issuer).toContain('BEGIN CERTIFICATE')
    expect(await readRotation(database(), both)).toMatchObject({ isAuthorityLeft: true })
    await rotate()
    expect(await readRotation(database(), both)).toMatchObject({ isAuthorityLeft: false })
    expect(await issuerOf(await open([newKey]))).toBe(issuer)
  })

  test('a key of the certificate authority that no master key decrypts is named, and the database stays under the old key', async () => {
    await ask('POST', '/certs', { thing_id: things[0]!.id, key_type: 'ec' })
    await database().execute(`UPDATE control_plane.certificate_authority SET key_ciphertext = '\\x00010203'`)
    await expect(rotate()).rejects.toThrow(/the key of certificate authority .* is encrypted with the key 00010203.*give that master key/)
    await expect(open([newKey])).rejects.toThrow(/encrypted with another master key/)
  })

  test('a given key that a thing has under the other master key is in use', async () => {
    const [first, second] = things
    const previous = first!.key
    await replaceKey(first!.id, { grace_seconds: 3_600 })
    for (const key of [previous, second!.key]) {
      expect((await ask('POST', '/things', { key })).status).toBe(409)
      expect((await ask('PATCH', `/things/${things[2]!.id}/key`, { key })).status).toBe(409)
    }
  })

  test('if instances with different master keys are given one key at once, one of them accepts it', async () => {
    const other = await open([oldKey, newKey])
    for (let attempt = 0; attempt < 5; attempt++) {
      const body = { key: `burnt-in-${attempt}-${newKey.toString('hex')}` }
      const answers = await Promise.all([platform, other, platform, other].map(on => ask('POST', '/things', body, on)))
      expect(answers.map(({ status }) => status).sort((one, other) => one - other)).toEqual([201, 409, 409, 409])
    }
  })

  test('a thing key that no master key decrypts is named with what to do, and the database stays under the old key', async () => {
    const { id } = things[7]!
    await database().query(`UPDATE control_plane.things SET key_ciphertext = '\\x00010203' WHERE id = $1`, [id])
    await expect(rotate()).rejects.toThrow(new RegExp(`the key of thing ${id} is encrypted with the key 00010203.*PATCH /things/${id}/key`))
    await expect(open([newKey])).rejects.toThrow(/encrypted with another master key/)
    await replaceKey(id)
    await rotate()
    expect(await shownKey(things[8]!.id, await open([newKey]))).toBe(things[8]!.key)
  })

  describe('of devices', () => {
    const device = { external_id: 'gateway', external_key: 'external key' }
    const fetchOn = async (on: Platform, { external_id: id, external_key: key } = device) =>
      call(on.url, 'GET', `/things/bootstrap/${id}`, { authorization: `Thing ${key}` })
    beforeEach(async () => {
      const old = await open([oldKey])
      const token = await old.signIn(user)
      const userHeaders = { authorization: token }
      await expectStatus(call(old.url, 'POST', '/mapping', { ...userHeaders, body: device }), 201)
      const body = {
        external_id: 'other',
        external_key: 'external key',
        thing_id: things[0]!.id,
        content: '{"a":1}',
        client_key: 'private',
      }
      await expectStatus(call(old.url, 'POST', '/things/configs', { ...userHeaders, body }), 201)
    })

    test('contents and private keys are written under the new key, and the configuration keeps its version', async () => {
      const config = `/things/configs/${things[0]!.id}`
      const before = await ask('GET', config)
      expect((await readRotation(database(), both)).bootstrapConfigsLeft).toBe(1)
      await rotate()
      expect((await readRotation(database(), both)).bootstrapConfigsLeft).toBe(0)
      const after = await ask('GET', config, undefined, await open([newKey]))
      expect([after.json, after.headers.get('etag')]).toEqual([before.json, before.headers.get('etag')])
      const fetched = await fetchOn(platform, { external_id: 'other', external_key: 'external key' })
      expect(fetched.json).toMatchObject({ content: '{"a":1}', client_key: 'private' })
    })

    test('external keys that need the old key are counted until each was sent, and a start without it logs them', async () => {
      await rotate()
      const left = async () => (await readRotation(database(), both)).externalKeysLeft
      expect(await left()).toBe(2)
      const without = await open([newKey])
      expect((await fetchOn(without)).status).toBe(401)
      expect(without.logged()).toMatch(/"external_keys":2,.*encrypted with a master key that is not configured/)
      expect((await fetchOn(platform)).status).toBe(200)
      expect(await left()).toBe(1)
      expect((await fetchOn(platform, { external_id: 'other', external_key: 'external key' })).status).toBe(200)
      expect(await left()).toBe(0)
      const after = await open([newKey])
      expect(after.logged()).not.toContain('external_keys')
      expect((await fetchOn(after)).status).toBe(200)
      expect((await ask('POST', '/mapping', device, after)).status).toBe(200)
    })

    test('private key, content and external key of a mapping with certificates are stored under the new key, which alone is then enough to find it', async () => {
      const content = { agent: { mqtt: { client_key: '{{certificate.client_key}}', password: '{{thing.key}}' } } }
      const layout = { ...fullLayout, bootstrap: { ...fullLayout.bootstrap, content } }
      const openMapping = async (...masterKeys: MasterKeys): Promise<Platform> => {
        const opened = await openPlatform(database(), { masterKeys, provisioning: { layout, externalKeyBytesMin: 8 } })
        platforms.push(opened)
        return opened
      }
      const certified = { external_id: 'certified', external_key: 'external key' }
      const old = await openMapping(oldKey)
      const authorization = await old.signIn(user)
      const made = await call(old.url, 'POST', '/mapping', { authorization, body: certified })
      const fetched = await fetchOn(old, certified)
      expect([made.status, fetched.json]).toEqual([201, expect.objectContaining({ client_key: expect.stringContaining('PRIVATE KEY') })])
      const left = async () => (await readRotation(database(), both)).externalKeysLeft
      const before = await left()
      await rotate()
      // The external key of mapping and configuration is under the new key once it was sent.
      expect((await fetchOn(await openMapping(...both), certified)).json).toEqual(fetched.json)
      expect(await left()).toBe(before - 1)
      const after = await openMapping(newKey)
      expect((await fetchOn(after, certified)).json).toEqual(fetched.json)
      const again = await ask('POST', '/mapping', certified, after)
      expect([again.status, again.json?.['things'], again.json?.['client_cert']]).toEqual([
        200,
        made.json!['things'],
        made.json!['client_cert'],
      ])
    })

    test('a repeated request for a mapping sends its key too, and one key under two master keys counts as the same key', async () => {
      await rotate()
      expect((await ask('POST', '/mapping', device)).status).toBe(200)
      expect((await readRotation(database(), both)).externalKeysLeft).toBe(1)
      const other = await platform.user()
      const body = { external_id: 'other', external_key: 'external key' }
      expect((await call(platform.url, 'POST', '/mapping', { authorization: other.token, body })).status).toBe(409)
    })
  })

  test('with the old key alone, or with other keys, nothing is written', async () => {
    expect(await rotate(database(), [oldKey])).toBe(0)
    await expect(rotate(database(), [newKey, Buffer.alloc(32, 9)])).rejects.toThrow(/encrypted with another master key/)
    expect(await linesOfAudit()).toBe(0)
  })
})
