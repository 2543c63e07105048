// CRLs in DER, read by OpenSSL and by the library for certificates.

import { generateKeyPairSync, randomBytes } from 'node:crypto'
import { expect, test } from 'vitest'
import { type CrlContent, encodeCrl, nextUpdateOf } from '../../../../control-plane/certificates/authorities/crl.ts'
import { loadX509, nameOf } from '../../../../control-plane/certificates/csr.ts'
import { crlPem, openssl, readCrl } from '../openssl.ts'

const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' }

async function encode(more: Partial<CrlContent>): Promise<Buffer> {
  const x509 = await loadX509()
  const aki = await x509.AuthorityKeyIdentifierExtension.create(publicKey.toCryptoKey(algorithm, true, ['verify']))
  const content: CrlContent = {
    issuer: new Uint8Array(nameOf(x509, 'Ünïted, "Roots"').toArrayBuffer()),
    revoked: [],
    thisUpdate: new Date('2026-11-24T08:30:15.999Z'),
    nextUpdate: new Date('2026-12-01T08:30:15Z'),
    number: 1n,
    authorityKeyIdentifier: new Uint8Array(aki.rawData),
    ...more,
  }
  return encodeCrl(content, privateKey)
}
const serialOf = (): string => {
  const bytes = randomBytes(16)
  bytes[0] = (bytes[0]! & 0x3f) | 0x40
  return bytes.toString('hex')
}

test.each([0, 1, 2, 5, 40, 1_000])('a CRL of %i entries says which and since when, and its signature is valid', async count => {
  const at = new Date('2026-10-09T01:02:03Z')
  const revoked = Array.from({ length: count }, () => ({ serial: serialOf(), at }))
  const der = await encode({ revoked })
  const { serials, text } = await readCrl(der)
  expect(serials).toEqual(revoked.map(({ serial }) => serial))
  expect(text).toContain('Last Update: Nov 24 08:30:15 2026 GMT')
  expect(text).toContain('Next Update: Dec  1 08:30:15 2026 GMT')
  expect(text.split('Revocation Date: Oct  9 01:02:03 2026 GMT')).toHaveLength(count + 1)
  const { X509Crl } = await loadX509()
  const crl = new X509Crl(der)
  expect(crl.entries.map(({ serialNumber }) => serialNumber)).toEqual(serials)
  expect(await crl.verify({ publicKey: publicKey.toCryptoKey(algorithm, true, ['verify']) })).toBe(true)
})

test.each([127, 128, 255, 256])('a list of %i bytes has its length in the right form (X.690 §8.1.3)', async bytes => {
  // An entry has 19 bytes beside its serial.
  const lengths = Array.from({ length: Math.ceil(bytes / 32) }, (_, nth) => 13 - (nth === 0 ? (32 - (bytes % 32)) % 32 : 0))
  const revoked = lengths.map(length => ({ serial: serialOf().slice(0, 2 * length), at: new Date() }))
  expect((await readCrl(await encode({ revoked }))).serials).toEqual(revoked.map(({ serial }) => serial))
})

test.each([0n, 1n, 127n, 128n, 255n, 256n, 1_795_000_000_000_000n, 2n ** 63n])('the number %d is encoded exactly', async number => {
  expect((await readCrl(await encode({ number }))).number).toBe(number)
})

test('a time from 2050 on has a year of four digits (RFC 5280 §5.1.2.4)', async () => {
  const der = await encode({ nextUpdate: new Date('2050-01-01T00:00:00Z') })
  expect((await readCrl(der)).text).toContain('Next Update: Jan  1 00:00:00 2050 GMT')
  expect(der.includes('20500101000000Z')).toBe(true)
  expect((await encode({ nextUpdate: new Date('2049-12-31T23:59:59Z') })).includes('491231235959Z')).toBe(true)
})

test.each(['2049-12-31T23:59:59Z', '2050-01-01T00:00:00Z'])(
  'the time of its next update is read, also as the library writes it: %s',
  async text => {
    const nextUpdate = new Date(text)
    const revoked = Array.from({ length: 40 }, () => ({ serial: serialOf(), at: new Date() }))
    expect(nextUpdateOf(await encode({ nextUpdate, revoked }))).toBe(nextUpdate.getTime())
    const { X509CrlGenerator } = await loadX509()
    const signingKey = privateKey.toCryptoKey(algorithm, false, ['sign'])
    const made = async (more: object) =>
      Buffer.from((await X509CrlGenerator.create({ issuer: 'CN=Elsewhere', signingKey, signingAlgorithm: algorithm, ...more })).rawData)
    expect(nextUpdateOf(await made({ nextUpdate }))).toBe(nextUpdate.getTime())
    // Without one the list of entries follows, or nothing.
    expect([nextUpdateOf(await made({})), nextUpdateOf(Buffer.from('{"errors": []}')), nextUpdateOf(Buffer.alloc(0))]).toEqual([0, 0, 0])
  },
)

test('the time to encode 50,000 entries is proportional to their bytes', async () => {
  const revoked = Array.from({ length: 50_000 }, () => ({ serial: serialOf(), at: new Date() }))
  // Processor time: what the machine does meanwhile does not count.
  const before = process.threadCpuUsage()
  const der = await encode({ revoked })
  // The library takes nine minutes.
  expect(process.threadCpuUsage(before).user / 1000).toBeLessThan(5_000)
  const { ok, output } = await openssl(['crl', '-noout', '-issuer'], crlPem(der))
  expect([ok, output]).toEqual([true, expect.stringContaining('issuer=')])
})
