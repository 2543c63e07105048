// The contract of every certificate authority (control-plane/certificates/authorities/authority.ts).

import { createPublicKey, X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { connect, createServer } from 'node:tls'
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import type { Authority, SignedCertificate, SigningRequest } from '../../control-plane/certificates/authorities/authority.ts'
import { openNewCsrs } from '../../control-plane/certificates/csr.ts'
import { newThingId, newUserId, type ThingId } from '../../control-plane/ids.ts'
import { itself } from '../../control-plane/writes.ts'
import type { Database } from '../../database/database.ts'
import { crlPem, makeCsr, readCrl, verify } from '../control-plane/certificates/openssl.ts'

export interface OpenedAuthority {
  readonly authority: Authority
  readonly database: Database
  /** PEM of the trusted root. */
  readonly root: () => Promise<string>
  /** CRLs of the authorities above the signing one, as DER, which list nothing. */
  readonly upperCrls?: readonly Buffer[]
  /** Stores a certificate like the store of certificates. */
  readonly keep: (thing: ThingId, signed: SignedCertificate) => Promise<void>
  /** Revokes like that store, and at the authority. */
  readonly revoke: (...serials: readonly string[]) => Promise<void>
}

const hour = 3600
const newCsrs = openNewCsrs()
const caller = { ...itself, user: newUserId() }

/** @param open called in hooks; data of earlier tests may be in it */
export function certificateAuthorityConformance(open: () => OpenedAuthority | Promise<OpenedAuthority>): void {
  describe('certificate authority', () => {
    let opened: OpenedAuthority
    let thing: ThingId
    beforeEach(async () => {
      opened = await open()
      thing = newThingId()
    })

    async function sign(given?: Pick<SigningRequest, 'csr' | 'publicKey'>, ttlSeconds = hour) {
      const made = given === undefined ? await newCsrs.make(caller, thing, { type: 'ec' }) : undefined
      const { csr, publicKey } = given ?? made!
      const signed = await opened.authority.sign({ thing, csr, publicKey, ttlSeconds })
      await opened.keep(thing, signed)
      const parsed = new X509Certificate(signed.certificate)
      return { ...signed, privateKey: made?.privateKey, serial: parsed.serialNumber.toLowerCase(), parsed }
    }
    const check = async ({ certificate, caChain }: SignedCertificate, withCrl = true): Promise<string> =>
      verify(certificate, {
        root: await opened.root(),
        ...(caChain === null ? {} : { chain: caChain }),
        ...(withCrl ? { crl: await opened.authority.crl() } : {}),
      })

    test.each<[string, string[]]>([
      ['P-256', ['ec', '-pkeyopt', 'ec_paramgen_curve:P-256']],
      ['P-384', ['ec', '-pkeyopt', 'ec_paramgen_curve:P-384']],
      ['RSA', ['rsa:2048']],
    ])('a certificate is for the key of the request, of %s, and for the thing as a TLS client only', async (_name, kind) => {
      const { key, request } = await makeCsr(`/CN=${thing}`, kind)
      const signed = await sign(request)
      expect([await check(signed, false), await check(signed)]).toEqual(['OK', 'OK'])
      const { subject, ca, publicKey, keyUsage } = signed.parsed
      expect([subject, ca, keyUsage]).toEqual([`CN=${thing}`, false, expect.arrayContaining(['1.3.6.1.5.5.7.3.2'])])
      expect(publicKey.export({ format: 'pem', type: 'spki' })).toEqual(
        createPublicKey(readFileSync(key)).export({ format: 'pem', type: 'spki' }),
      )
      expect(new X509Certificate(signed.certificate).checkIssued(new X509Certificate(signed.issuingCa))).toBe(true)
    })

    test('serials are positive, unique, and have at least 64 bits and at most 20 octets (RFC 5280 §4.1.2.2)', async () => {
      const serials = await Promise.all(Array.from({ length: 20 }, async () => (await sign()).serial))
      for (const serial of serials) expect(serial).toMatch(/^[0-9a-f]{16,40}$/)
      expect(new Set(serials).size).toBe(20)
    })

    test('a certificate is valid for the requested time', async () => {
      const { parsed } = await sign(undefined, 5 * hour)
      expect(Math.abs(parsed.validToDate.getTime() - Date.now() - 5 * hour * 1000)).toBeLessThan(120_000)
    })

    test.each<[string, string, string[]]>([
      ['another common name', '/CN=somebody else', []],
      ['more of a subject', '/O=Other/CN=somebody else', []],
      ['another alternative name', '/', ['-addext', 'subjectAltName=DNS:other.example']],
      ['the rights of an authority', '/', ['-addext', 'basicConstraints=critical,CA:TRUE']],
    ])('a CSR with %s is refused, or that part is ignored', async (_name, subject, more) => {
      const { request } = await makeCsr(subject, undefined, more)
      const signed = await sign(request).catch((error: unknown) => error)
      if (signed instanceof Error)
        return expect(signed).toMatchObject({ code: 'malformed_request', message: expect.stringContaining('refuses') })
      const { parsed } = signed as Awaited<ReturnType<typeof sign>>
      expect([parsed.subject, parsed.ca]).toEqual([`CN=${thing}`, false])
      expect([undefined, `DNS:${thing}`]).toContain(parsed.subjectAltName)
    })

    test('a revoked certificate is immediately in the CRL, and OpenSSL refuses it; others stay valid', async () => {
      const [kept, revoked] = [await sign(), await sign()]
      await opened.revoke(revoked.serial)
      const { serials } = await readCrl(await opened.authority.crl())
      expect([serials.includes(revoked.serial), serials.includes(kept.serial)]).toEqual([true, false])
      expect([await check(kept), await check(revoked), await check(revoked, false)]).toEqual(['OK', 'certificate revoked', 'OK'])
    })

    test('a Node.js server with this CRL accepts a client until its certificate is revoked', async () => {
      const [kept, revoked] = [await sign(), await sign()]
      await opened.revoke(revoked.serial)
      const crl = [await opened.authority.crl(), ...(opened.upperCrls ?? [])].map(crlPem)
      const tls = { ca: await opened.root(), crl, key: kept.privateKey!, cert: chainOf(kept) }
      const server = createServer({ ...tls, requestCert: true, rejectUnauthorized: false }, socket =>
        socket.end(socket.authorized ? 'in' : String(socket.authorizationError)),
      )
      await once(server.listen(0, '127.0.0.1'), 'listening')
      onTestFinished(() => void server.close())
      const { port } = server.address() as AddressInfo
      const enter = async (client: typeof kept): Promise<string> => {
        const socket = connect({ port, host: '127.0.0.1', rejectUnauthorized: false, key: client.privateKey!, cert: chainOf(client) })
        return String((await once(socket, 'data'))[0])
      }
      expect([await enter(kept), await enter(revoked)]).toEqual(['in', 'CERT_REVOKED'])
    })

    test('many can be revoked together, and some of them again', async () => {
      const signed = await Promise.all(Array.from({ length: 10 }, () => sign()))
      const serials = signed.map(({ serial }) => serial)
      await opened.revoke(...serials.slice(0, 3))
      await opened.revoke(...serials)
      const { serials: named } = await readCrl(await opened.authority.crl())
      for (const serial of serials) expect(named).toContain(serial)
      expect(named.filter(serial => serial === serials[0])).toHaveLength(1)
    })

    test('each CRL has a greater number than the previous one (RFC 5280 §5.2.3)', async () => {
      const numbers: bigint[] = []
      for (let nth = 0; nth < 3; nth++) {
        await opened.revoke((await sign()).serial)
        numbers.push((await readCrl(await opened.authority.crl())).number)
      }
      expect(numbers[1]).toBeGreaterThan(numbers[0]!)
      expect(numbers[2]).toBeGreaterThan(numbers[1]!)
    })
  })
}

const chainOf = ({ certificate, caChain }: SignedCertificate): string => [certificate, ...(caChain ?? [])].join('\n')
