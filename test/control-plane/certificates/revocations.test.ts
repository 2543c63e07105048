// Sending revocations to an authority elsewhere: at least once, whatever fails, and none delays the others.

import { beforeEach, expect, onTestFinished, test, vi } from 'vitest'
import { openRevocations, type Revocations } from '../../../control-plane/certificates/revocations.ts'
import { newThingId } from '../../../control-plane/ids.ts'
import type { Database } from '../../../database/database.ts'
import { describeOnDatabases, recordingLogger } from '../platform.ts'

describeOnDatabases(
  'revocations',
  database => {
    /** What the authority was asked for, in order. */
    let asked: string[]
    let answer: (serial: string) => Promise<void>
    let logged: () => string
    beforeEach(async () => {
      await database().query('DELETE FROM control_plane.certificates')
      asked = []
      answer = async () => undefined
    })

    function open(own: Pick<Database, 'query'> = database()): Revocations {
      const recording = recordingLogger()
      logged = recording.logged
      const revoke = (serial: string): Promise<void> => {
        asked.push(serial)
        return answer(serial)
      }
      return openRevocations({ database: own, authority: { name: 'step-ca', revoke }, logger: recording.logger })
    }

    /** Certificates that were revoked, the first of them first. */
    async function revoked(count: number, expiresIn = '1 day'): Promise<string[]> {
      const sql = `
        INSERT INTO control_plane.certificates (serial, thing, owner, authority, certificate, expires_at, revoked_at, revocation_due_at)
        SELECT md5($1::text || n), $1::text::uuid, $1::text::uuid, 'step-ca', '', now() + $2::text::interval, now(),
          now() - interval '1 hour' + n * interval '1 s'
        FROM generate_series(1, ${count}) AS n RETURNING serial`
      return (await database().query<{ serial: string }>(sql, [newThingId(), expiresIn])).map(({ serial }) => serial)
    }
    const pending = async (): Promise<string[]> => {
      const sql = 'SELECT serial FROM control_plane.certificates WHERE revocation_due_at IS NOT NULL ORDER BY serial'
      return (await database().query<{ serial: string }>(sql)).map(({ serial }) => serial)
    }
    const revision = () => database().query('SELECT revision FROM control_plane.crl_revision')
    /** In place of waiting until they are due again. */
    const passTime = () =>
      database().query('UPDATE control_plane.certificates SET revocation_due_at = now() WHERE revocation_due_at IS NOT NULL')

    test('the authority gets all of them once, and the CRL of before is not answered any more', async () => {
      const serials = await revoked(45)
      const before = await revision()
      const revocations = open()
      await revocations.deliver()
      expect([asked.toSorted(), await pending(), logged()]).toEqual([serials.toSorted(), [], ''])
      expect(await revision()).not.toEqual(before)
      await revocations.deliver()
      expect(asked).toHaveLength(45)
    })

    test('one that the authority refuses for good is logged and asked for again, and delays no others', async () => {
      const serials = await revoked(45)
      const bad = serials[3]!
      answer = serial => (serial === bad ? Promise.reject(new Error('no such certificate')) : Promise.resolve())
      const revocations = open()
      await revocations.deliver()
      expect([asked.length, await pending()]).toEqual([45, [bad]])
      expect(logged()).toContain(`"serials":["${bad}"],"reason":"no such certificate"`)
      const more = await revoked(1)
      await revocations.deliver()
      // Not yet.
      expect(asked.slice(45)).toEqual(more)
      await passTime()
      await revocations.deliver()
      expect([asked.slice(46), await pending()]).toEqual([[bad], [bad]])
    })

    test('an authority that is away is asked for one part, and for the others the next time', async () => {
      const serials = await revoked(45)
      answer = () => Promise.reject(new Error('away'))
      const revocations = open()
      await revocations.deliver()
      expect(asked.toSorted()).toEqual(serials.slice(0, 20).toSorted())
      await revocations.deliver()
      expect(asked.toSorted()).toEqual(serials.slice(0, 40).toSorted())
      answer = async () => undefined
      await passTime()
      await revocations.deliver()
      expect(await pending()).toEqual([])
    })

    test('the authority is not asked to revoke an expired one, which it may have forgotten', async () => {
      await revoked(1, '-1 s')
      await open().deliver()
      expect(asked).toEqual([])
    })

    test.each<[string, () => Promise<Revocations>]>([
      [
        'while it waited for the answer',
        async () => {
          const arrived = Promise.withResolvers<void>()
          answer = () => {
            arrived.resolve()
            return new Promise(() => undefined)
          }
          const dying = open()
          void dying.deliver()
          await arrived.promise
          answer = async () => undefined
          return open()
        },
      ],
      [
        'before it noted the answer',
        async () => {
          const query: Database['query'] = (sql, values) =>
            sql.includes('asked AS') ? Promise.reject(new Error('killed')) : database().query(sql, values)
          await open({ query }).deliver()
          expect(logged()).toContain('"reason":"killed"')
          return open()
        },
      ],
    ])('a process that is killed %s leaves the revocation to the next, which sends it again', async (_name, die) => {
      const [serial] = await revoked(1)
      const next = await die()
      expect([asked, await pending()]).toEqual([[serial], [serial]])
      await next.deliver()
      expect([asked, await pending()]).toEqual([[serial, serial], []])
    })

    test('of two processes that ask at the same time, the one that is refused does not make it due again', async () => {
      const [serial] = await revoked(1)
      const refusal = Promise.withResolvers<void>()
      answer = () => refusal.promise
      const slower = open().deliver()
      await expect.poll(() => asked).toEqual([serial])
      answer = async () => undefined
      await open().deliver()
      refusal.reject(new Error('another request revokes it'))
      await slower
      expect([asked, await pending()]).toEqual([[serial, serial], []])
    })

    test('they are delivered every second, and not after a stop', async () => {
      vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
      onTestFinished(() => void vi.useRealTimers())
      const revocations = open()
      revocations.start()
      const first = await revoked(1)
      vi.advanceTimersByTime(1_000)
      await expect.poll(pending).toEqual([])
      await revocations.stop()
      const second = await revoked(1)
      vi.advanceTimersByTime(5_000)
      await revocations.stop()
      expect([asked, await pending()]).toEqual([first, second])
    })
  },
  true,
)
