// The authority `builtin`: what every authority promises, and its root in the database.

import { hash, X509Certificate } from 'node:crypto'
import { beforeAll, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { openBuiltinAuthority } from '../../../../control-plane/certificates/authorities/builtin.ts'
import { openBuiltinStore } from '../../../../control-plane/certificates/authorities/builtin-store.ts'
import { loadX509, openNewCsrs } from '../../../../control-plane/certificates/csr.ts'
import { newThingId, newUserId } from '../../../../control-plane/ids.ts'
import { itself } from '../../../../control-plane/writes.ts'
import { certificateAuthorityConformance } from '../../../conformance/certificate-authority.ts'
import { describeOnDatabases, masterKey, openPlatform } from '../../platform.ts'
import { openssl, readCrl } from '../openssl.ts'
import { keptCertificates } from './kept-certificates.ts'

describeOnDatabases('builtin', database => {
  beforeAll(async () => {
    const platform = await openPlatform(database())
    await platform.close()
  })
  const open = ({ key = masterKey, crlUrl }: { key?: Buffer; crlUrl?: string } = {}) =>
    openBuiltinAuthority({ store: openBuiltinStore(database(), [key]), subject: 'Odd "name", O=x+', crlUrl })
  const rowOf = async () => (await database().query<{ certificate: string }>('SELECT * FROM control_plane.certificate_authority'))[0]!
  const sign = async (authority = open()) => {
    const thing = newThingId()
    const { csr, publicKey } = await openNewCsrs().make({ ...itself, user: newUserId() }, thing, { type: 'ec' })
    return authority.sign({ thing, csr, publicKey, ttlSeconds: 3600 })
  }

  certificateAuthorityConformance(() => {
    const authority = open()
    return { authority, database: database(), root: async () => (await rowOf()).certificate, ...keptCertificates(database(), authority) }
  })

  describe('root', () => {
    beforeEach(() => database().execute('DELETE FROM control_plane.certificate_authority'))

    test('instances that sign their first certificate at once create one authority', async () => {
      const signed = await Promise.all([1, 2, 3, 4].map(() => sign(open())))
      expect(new Set(signed.map(({ issuingCa }) => issuingCa))).toEqual(new Set([(await rowOf()).certificate]))
    })

    test('an instance that was too late with its root signs under the stored one', async () => {
      await sign()
      const root = new X509Certificate((await rowOf()).certificate)
      const kept = openBuiltinStore(database(), [masterKey])
      let asked = 0
      // It looked before the other one had stored its root.
      const store = { ...kept, find: async () => (asked++ === 0 ? undefined : kept.find()) }
      const { certificate, issuingCa } = await sign(openBuiltinAuthority({ store, subject: 'Too late', crlUrl: undefined }))
      expect(issuingCa).toBe((await rowOf()).certificate)
      expect(new X509Certificate(certificate).verify(root.publicKey)).toBe(true)
      expect(await database().query('SELECT FROM control_plane.certificate_authority')).toHaveLength(1)
    })

    test('it is a root of P-256 that signs clients and no authorities, under the name of the options', async () => {
      const { issuingCa, caChain } = await sign()
      const { subject, issuer, ca, publicKey } = new X509Certificate(issuingCa)
      expect([subject, issuer, ca, caChain]).toEqual(['CN=Odd \\"name\\"\\, O=x\\+', 'CN=Odd \\"name\\"\\, O=x\\+', true, null])
      expect(publicKey.asymmetricKeyDetails).toEqual({ namedCurve: 'prime256v1' })
      const { output } = await openssl(['x509', '-noout', '-text'], issuingCa)
      expect(output).toMatch(/CA:TRUE, pathlen:0[\s\S]+Certificate Sign, CRL Sign/)
    })

    test('it signs a key without asking for a signing request, and names it by its hash (RFC 7093 §2)', async () => {
      const { publicKey } = await openNewCsrs().make({ ...itself, user: newUserId() }, newThingId(), { type: 'ec' })
      const csr = (): Promise<never> => Promise.reject(new Error('a request was asked for'))
      const { certificate } = await open().sign({ thing: newThingId(), csr, publicKey, ttlSeconds: 3600 })
      const { output } = await openssl(['x509', '-noout', '-ext', 'subjectKeyIdentifier'], certificate)
      expect(output.replace(/[^0-9A-F]/g, '')).toContain(hash('sha256', publicKey).toUpperCase())
    })

    test('a revocation by one instance is immediately in the CRL of another', async () => {
      const [one, other] = [open(), open()]
      const { keep, revoke } = keptCertificates(database(), one)
      const signed = await sign(one)
      await keep(newThingId(), signed)
      const serial = new X509Certificate(signed.certificate).serialNumber.toLowerCase()
      expect((await readCrl(await other.crl())).serials).not.toContain(serial)
      await revoke(serial)
      expect((await readCrl(await other.crl())).serials).toContain(serial)
    })

    test('a CRL is the same until something is revoked or an hour has passed, and is valid for a week', async () => {
      const authority = open()
      const first = await authority.crl()
      expect(await authority.crl()).toBe(first)
      vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 3_601_000 })
      onTestFinished(() => void vi.useRealTimers())
      const second = await authority.crl()
      expect((await readCrl(second)).number).toBeGreaterThan((await readCrl(first)).number)
      const { X509Crl } = await loadX509()
      const { thisUpdate, nextUpdate } = new X509Crl(second)
      expect(nextUpdate!.getTime() - Date.now()).toBeGreaterThan(6.99 * 86_400_000)
      // For clocks that are behind.
      expect(Math.abs(Date.now() - thisUpdate.getTime() - 300_000)).toBeLessThan(60_000)
    })

    test('a certificate and the root are valid for clocks that are five minutes behind', async () => {
      const { certificate, issuingCa } = await sign()
      for (const pem of [certificate, issuingCa])
        expect(Math.abs(Date.now() - new X509Certificate(pem).validFromDate.getTime() - 300_000)).toBeLessThan(60_000)
    })

    test('its key is encrypted under the master key, and bound to its row', async () => {
      await sign()
      const [row] = await database().query<{ text: string }>(
        'SELECT certificate_authority::text AS text FROM control_plane.certificate_authority',
      )
      expect(row!.text).toContain('BEGIN CERTIFICATE')
      expect(row!.text).not.toContain(Buffer.from('PRIVATE KEY').toString('hex'))
      await expect(sign(open({ key: Buffer.alloc(32, 8) }))).rejects.toThrow('the key of certificate authority')
      await database().execute(`UPDATE control_plane.certificate_authority SET id = gen_random_uuid()`)
      await expect(sign()).rejects.toThrow('cannot be decrypted')
    })

    test('a certificate names the CRL only if its address is configured', async () => {
      const text = async (certificate: string) => (await openssl(['x509', '-noout', '-text'], certificate)).output
      expect(await text((await sign(open({ crlUrl: 'https://sluice.example/certs/crl' }))).certificate)).toContain(
        'URI:https://sluice.example/certs/crl',
      )
      expect(await text((await sign()).certificate)).not.toContain('CRL Distribution')
    })
  })
})
