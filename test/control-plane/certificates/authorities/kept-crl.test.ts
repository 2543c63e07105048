// The CRL of an authority elsewhere: when it is asked for again.

import { generateKeyPairSync } from 'node:crypto'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import type { Authority } from '../../../../control-plane/certificates/authorities/authority.ts'
import { encodeCrl } from '../../../../control-plane/certificates/authorities/crl.ts'
import { keepingCrl } from '../../../../control-plane/certificates/authorities/kept-crl.ts'
import { loadX509, nameOf } from '../../../../control-plane/certificates/csr.ts'
import { describeOnDatabases } from '../../platform.ts'

const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })

async function crlUntil(nextUpdate: Date): Promise<Buffer> {
  const issuer = new Uint8Array(nameOf(await loadX509(), 'Elsewhere').toArrayBuffer())
  const times = { thisUpdate: new Date(nextUpdate.getTime() - 3_600_000), nextUpdate }
  return encodeCrl({ issuer, revoked: [], number: 1n, authorityKeyIdentifier: new Uint8Array(), ...times }, privateKey)
}

describeOnDatabases(
  'the CRL of an authority elsewhere',
  database => {
    let asked = 0
    let answer: () => Promise<Buffer>
    let now: number
    beforeEach(() => {
      now = Math.floor(Date.now() / 1000) * 1000
      vi.useFakeTimers({ toFake: ['Date'], now })
      asked = 0
      answer = () => crlUntil(new Date(now + 86_400_000))
    })
    afterEach(() => void vi.useRealTimers())
    const open = (): Authority => {
      const externalAuthority = {
        name: 'step-ca',
        crl: () => {
          asked++
          return answer()
        },
      } satisfies Partial<Authority>
      return keepingCrl(externalAuthority as unknown as Authority, database())
    }
    const noteSent = () => database().query('UPDATE control_plane.crl_revision SET revision = revision + 1')
    const askedBy = async (authority: Authority): Promise<number> => {
      await authority.crl()
      return asked
    }

    test('it is asked for once a minute', async () => {
      const authority = open()
      const first = await authority.crl()
      vi.setSystemTime(now + 59_999)
      expect([await authority.crl(), asked]).toEqual([first, 1])
      vi.setSystemTime(now + 60_000)
      expect(await askedBy(authority)).toBe(2)
    })

    test('a CRL is not answered once it is not valid any more', async () => {
      const authority = open()
      answer = () => crlUntil(new Date(now + 10_000))
      await authority.crl()
      vi.setSystemTime(now + 9_999)
      expect(await askedBy(authority)).toBe(1)
      vi.setSystemTime(now + 10_000)
      expect([await askedBy(authority), await askedBy(authority)]).toEqual([2, 3])
    })

    test('an answer that is not a CRL is a 503, and the next call asks again', async () => {
      const authority = open()
      answer = async () => Buffer.from('{"data": "nonsense"}')
      const cause = { message: 'step-ca answered 20 bytes, which are not a CRL with the time of its next update' }
      for (let nth = 0; nth < 2; nth++) await expect(authority.crl()).rejects.toMatchObject({ code: 'unavailable', cause })
      answer = () => crlUntil(new Date(now + 86_400_000))
      expect(await askedBy(authority)).toBe(3)
    })

    test('once any instance has sent a revocation to the authority it is asked for again', async () => {
      const [one, other] = [open(), open()]
      expect([await askedBy(one), await askedBy(one), await askedBy(other), await askedBy(other)]).toEqual([1, 1, 2, 2])
      await noteSent()
      expect([await askedBy(one), await askedBy(one), await askedBy(other), await askedBy(other)]).toEqual([3, 3, 4, 4])
    })

    test('a revocation while it is being asked for makes the next call ask again', async () => {
      const authority = open()
      const { promise, resolve } = Promise.withResolvers<Buffer>()
      answer = () => promise
      const first = authority.crl()
      await expect.poll(() => asked).toBe(1)
      await noteSent()
      resolve(await crlUntil(new Date(now + 86_400_000)))
      await first
      expect(await askedBy(authority)).toBe(2)
    })
  },
  true,
)
