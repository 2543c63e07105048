// Certificates issued inside another transaction, as a mapping does, and what is left if that fails.

import { X509Certificate } from 'node:crypto'
import { beforeAll, beforeEach, expect, test } from 'vitest'
import type { Authority } from '../../../control-plane/certificates/authorities/authority.ts'
import { openBuiltinAuthority } from '../../../control-plane/certificates/authorities/builtin.ts'
import { openBuiltinStore } from '../../../control-plane/certificates/authorities/builtin-store.ts'
import { openNewCsrs } from '../../../control-plane/certificates/csr.ts'
import { openRevocations } from '../../../control-plane/certificates/revocations.ts'
import type { IssueRequest } from '../../../control-plane/certificates/signing.ts'
import { type Certificates, openCertificates } from '../../../control-plane/certificates/store.ts'
import { newThingId, type ThingId, toUserId, type UserId } from '../../../control-plane/ids.ts'
import { openRelationalPolicies } from '../../../control-plane/policies/relational.ts'
import { openThingKeys } from '../../../control-plane/things/keys.ts'
import { openThings } from '../../../control-plane/things/store.ts'
import { itself, type Write } from '../../../control-plane/writes.ts'
import type { Database } from '../../../database/database.ts'
import { describeOnDatabases, masterKey, openPlatform, recordingLogger, writesOn } from '../platform.ts'
import { readCrl } from './openssl.ts'

describeOnDatabases('issuing', database => {
  let owner: UserId
  beforeAll(async () => {
    const platform = await openPlatform(database())
    owner = toUserId((await platform.user()).id)
    await platform.close()
  })
  let certificates: Certificates
  let thing: ThingId
  let logged: () => string
  beforeEach(() => {
    certificates = open()
    thing = newThingId()
  })
  const by = () => ({ ...itself, user: owner })

  const builtin = (): Authority =>
    openBuiltinAuthority({ store: openBuiltinStore(database(), [masterKey]), subject: 'Test', crlUrl: undefined })

  const open = (change: Partial<Authority> = {}, perOwnerMax = 1_000): Certificates => openOn(database(), change, perOwnerMax)

  function openOn(own: Database, change: Partial<Authority>, perOwnerMax = 1_000): Certificates {
    const recording = recordingLogger()
    logged = recording.logged
    const parts = { database: own, writes: writesOn(own), newCsrs: openNewCsrs(), logger: recording.logger }
    return openCertificates({ ...parts, perOwnerMax, authority: { ...builtin(), ...change } })
  }
  /** Signs like `builtin`, and counts. */
  function externalAuthority() {
    const counted = { signed: 0, revoked: [] as string[] }
    const authority = {
      name: 'step-ca',
      async sign(asked) {
        counted.signed++
        return builtin().sign(asked)
      },
      revoke: async serial => void counted.revoked.push(serial),
    } satisfies Partial<Authority>
    return { authority, counted }
  }
  /** An authority that signs when it is asked for so many, so that all transactions begin together. */
  function signingTogether(requests: number): Partial<Authority> {
    const all = Promise.withResolvers<void>()
    let signed = 0
    return {
      async sign(asked) {
        const certificate = await builtin().sign(asked)
        if (++signed === requests) all.resolve()
        await all.promise
        return certificate
      },
    }
  }
  /** As the owner's row says. */
  async function owned(): Promise<number> {
    const [row] = await database().query<{ n: number }>('SELECT certificate_count AS n FROM control_plane.users WHERE id = $1', [owner])
    return row!.n
  }
  const deliver = (authority: Pick<Authority, 'name' | 'revoke'>, own = database()): Promise<void> =>
    openRevocations({ database: own, authority, logger: recordingLogger().logger }).deliver()
  const request = (of = thing): IssueRequest => ({ thing: of, key: { type: 'ec' }, ttlSeconds: 3600 })
  const makeThing = async (write: Write): Promise<void> => {
    const sql = `INSERT INTO control_plane.things (id, owner, name, name_folded, key_ciphertext, key_lookup) VALUES ($1, $2, '', '', $3, $4)`
    await write.query(sql, [thing, owner, new Uint8Array(0), Buffer.from(thing)])
  }
  const kept = async (): Promise<unknown[]> =>
    database().query('SELECT revoked_at FROM control_plane.certificates WHERE thing = $1', [thing])
  const isThere = async (): Promise<boolean> =>
    (await database().query('SELECT FROM control_plane.things WHERE id = $1', [thing])).length > 0

  test('a thing and its certificates are made in one transaction, with their keys', async () => {
    const issued = await certificates.issuing(by(), [request(), request()], async (made, store) => {
      await writesOn(database())(by(), async write => {
        await makeThing(write)
        await store(write)
      })
      return made
    })
    expect(await kept()).toHaveLength(2)
    for (const { certificate, privateKey, serial } of issued) {
      expect(new X509Certificate(certificate).subject).toBe(`CN=${thing}`)
      expect(privateKey).toContain('BEGIN PRIVATE KEY')
      expect(await certificates.find(serial)).toMatchObject({ thing, serial, revokedAt: undefined })
    }
  })

  test('if the transaction fails, there is neither thing nor certificate', async () => {
    const before = await owned()
    const mapping = certificates.issuing(by(), [request(), request()], async (_made, store) => {
      await writesOn(database())(by(), async write => {
        await makeThing(write)
        await store(write)
        throw new Error('the mapping failed')
      })
    })
    await expect(mapping).rejects.toThrow('the mapping failed')
    expect([await isThere(), await kept(), (await owned()) - before]).toEqual([false, [], 0])
  })

  test('what an authority elsewhere signs for transactions that fail is revoked, and counts for the owner: a loop does not fill its CRL', async () => {
    const { authority, counted } = externalAuthority()
    certificates = open(authority, (await owned()) + 3)
    const failing = (): Promise<unknown> => certificates.issuing(by(), [request()], () => Promise.reject(new Error('the mapping failed')))
    for (let count = 0; count < 3; count++) await expect(failing()).rejects.toThrow('the mapping failed')
    expect(await kept()).toEqual(Array.from({ length: 3 }, () => ({ revoked_at: expect.any(String) })))
    await expect(failing()).rejects.toMatchObject({ code: 'too_many_requests' })
    expect(counted).toEqual({ signed: 3, revoked: [] })
    await deliver(authority)
    expect(new Set(counted.revoked).size).toBe(3)
  })

  test('if the second of two cannot be signed, the first is revoked, and `work` is not called', async () => {
    const { authority, counted } = externalAuthority()
    certificates = open({
      ...authority,
      sign: one => (counted.signed === 0 ? authority.sign(one) : Promise.reject(new Error('away'))),
    })
    const work = (): Promise<never> => Promise.reject(new Error('the work was begun'))
    await expect(certificates.issuing(by(), [request(), request()], work)).rejects.toThrow('away')
    expect(await kept()).toEqual([{ revoked_at: expect.any(String) }])
    await deliver(authority)
    expect(counted.revoked).toHaveLength(1)
  })

  test('a certificate whose commit succeeded without an answer is revoked', async () => {
    let serial = ''
    const mapping = certificates.issuing(by(), [request()], async ([made], store) => {
      serial = made!.serial
      await writesOn(database())(by(), async write => {
        await makeThing(write)
        await store(write)
      })
      throw new Error('the connection was lost at the commit')
    })
    await expect(mapping).rejects.toThrow('the connection was lost')
    expect(await kept()).toEqual([{ revoked_at: expect.any(String) }])
    expect((await readCrl(await certificates.crl())).serials).toContain(serial)
  })

  test('a certificate that then cannot be revoked is logged with its serial, and the caller gets the first error', async () => {
    const failing: Database = {
      ...database(),
      query: (sql, values, asking) =>
        sql.includes('inserted AS') ? Promise.reject(new Error('the database is away')) : database().query(sql, values, asking),
    }
    certificates = openOn(failing, {})
    const mapping = certificates.issuing(by(), [request()], () => Promise.reject(new Error('the mapping failed')))
    await expect(mapping).rejects.toThrow('the mapping failed')
    expect(logged()).toMatch(/"serials":\["[0-9a-f]{32}"\],"reason":"the database is away"/)
  })

  test('a thing that was deleted meanwhile gets no certificate', async () => {
    await expect(certificates.issue(by(), request())).rejects.toMatchObject({ code: 'forbidden' })
    expect(await kept()).toEqual([])
  })

  const makeCertificates = async (count: number): Promise<void> => {
    await writesOn(database())(by(), makeThing)
    const sql = `INSERT INTO control_plane.certificates (serial, thing, owner, authority, certificate, expires_at)
      SELECT md5($1 || n), id, owner, 'builtin', '', now() + interval '1 day' FROM generate_series(1, ${count}) AS n, control_plane.things WHERE id = $1::uuid`
    await database().query(sql, [thing])
  }

  test('at most a hundred certificates of a thing are valid', async () => {
    await makeCertificates(100)
    await expect(certificates.issue(by(), request())).rejects.toMatchObject({ code: 'conflict' })
    await database().query('UPDATE control_plane.certificates SET expires_at = now() WHERE serial = md5($1 || 7)', [thing])
    expect(await certificates.issue(by(), request())).toMatchObject({ thing })
  })

  test('what would be refused afterwards is not signed', async () => {
    await makeCertificates(100)
    const asked = { sign: () => Promise.reject(new Error('it was asked')) }
    await expect(open(asked).issue(by(), request())).rejects.toMatchObject({ code: 'conflict' })
    await expect(open(asked, await owned()).issue(by(), request(newThingId()))).rejects.toMatchObject({ code: 'too_many_requests' })
    await expect(open(asked, (await owned()) + 1).issue(by(), request(newThingId()))).rejects.toThrow('it was asked')
  })

  test('concurrent requests for one thing store at most as many as make a hundred valid', async () => {
    await makeCertificates(97)
    certificates = open(signingTogether(8))
    const outcomes = await Promise.allSettled(Array.from({ length: 8 }, () => certificates.issue(by(), request())))
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(3)
    for (const outcome of outcomes) if (outcome.status === 'rejected') expect(outcome.reason).toMatchObject({ code: 'conflict' })
    expect(await kept()).toHaveLength(100)
  })

  test('concurrent requests of one owner store at most as many as allowed', async () => {
    const things = Array.from({ length: 8 }, newThingId)
    for (thing of things) await writesOn(database())(by(), makeThing)
    const before = await owned()
    certificates = open(signingTogether(8), before + 3)
    const outcomes = await Promise.allSettled(things.map(one => certificates.issue(by(), request(one))))
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(3)
    for (const outcome of outcomes) if (outcome.status === 'rejected') expect(outcome.reason).toMatchObject({ code: 'too_many_requests' })
    expect((await owned()) - before).toBe(3)
  })

  test('no certificate issued while the thing is being deleted stays valid', async () => {
    const parts = {
      database: database(),
      policies: openRelationalPolicies(database()),
      writes: writesOn(database()),
      thingKeys: openThingKeys([masterKey]),
    }
    const things = openThings({ ...parts, certificates })
    for (let round = 0; round < 5; round++) {
      const [made] = await things.create(by(), [{ name: 'device' }])
      thing = made!.id
      const all = [1, 2, 3].map(() => certificates.issue(by(), request(thing)))
      const outcomes = await Promise.allSettled([...all, things.remove(by(), thing, undefined), certificates.issue(by(), request(thing))])
      expect(outcomes[3]).toMatchObject({ status: 'fulfilled', value: { version: 1 } })
      for (const row of await kept()) expect(row).toEqual({ revoked_at: expect.any(String) })
    }
  })

  test('no transaction is open while an authority elsewhere signs or revokes, also when its thing is deleted or its certificate renewed', async () => {
    let [open, asked] = [0, 0]
    const counting: Database = {
      ...database(),
      async transaction(work, signal) {
        open++
        return database()
          .transaction(work, signal)
          .finally(() => open--)
      },
    }
    const outside = async <Result>(work: () => Promise<Result>): Promise<Result> => {
      asked++
      expect(open).toBe(0)
      return work()
    }
    const { authority: inner, counted } = externalAuthority()
    const authority = {
      ...inner,
      sign: one => outside(() => inner.sign(one)),
      revoke: serial => outside(() => inner.revoke(serial)),
    } satisfies Partial<Authority>
    certificates = openOn(counting, authority)
    await writesOn(database())(by(), makeThing)
    const first = await certificates.issue(by(), request())
    const renewed = await certificates.renew(by(), (await certificates.find(first.serial))!, request(), true)
    await deliver(authority, counting)
    expect(counted.revoked).toEqual([first.serial])
    const things = openThings({
      database: counting,
      policies: openRelationalPolicies(counting),
      writes: writesOn(counting),
      thingKeys: openThingKeys([masterKey]),
      certificates,
    })
    // A deletion that is refused revokes nothing.
    expect(await things.remove(by(), thing, [9])).not.toHaveProperty('version')
    await deliver(authority, counting)
    expect(counted.revoked).toHaveLength(1)
    expect(await things.remove(by(), thing, undefined)).toHaveProperty('version')
    await deliver(authority, counting)
    expect(counted.revoked).toEqual([first.serial, renewed.serial])
    expect([asked, await isThere(), await kept()]).toEqual([
      4,
      false,
      [{ revoked_at: expect.any(String) }, { revoked_at: expect.any(String) }],
    ])
  })

  test('requests for the CRL while one is being made share the next one, which is made after they arrived', async () => {
    const answers: ((crl: Buffer) => void)[] = []
    certificates = open({ crl: () => new Promise(resolve => answers.push(resolve)) })
    const first = certificates.crl()
    await expect.poll(() => answers.length).toBe(1)
    const later = [certificates.crl(), certificates.crl(), certificates.crl()]
    answers[0]!(Buffer.from('first'))
    expect(String(await first)).toBe('first')
    await expect.poll(() => answers.length).toBe(2)
    answers[1]!(Buffer.from('second'))
    expect((await Promise.all(later)).map(String)).toEqual(['second', 'second', 'second'])
  })
})
