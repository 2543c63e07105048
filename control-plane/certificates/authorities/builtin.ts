// The platform's own authority: a P-256 root, made with the first certificate; its key is encrypted in the database.

import { createPrivateKey, generateKeyPair, hash, type KeyObject, randomBytes, type webcrypto } from 'node:crypto'
import { promisify } from 'node:util'
import { loadX509, nameOf, type X509 } from '../csr.ts'
import type { Authority, SignedCertificate, SigningRequest } from './authority.ts'
import type { AuthorityKeys, BuiltinStore } from './builtin-store.ts'
import { encodeCrl } from './crl.ts'

interface Parts {
  readonly store: BuiltinStore
  /** Common name of the root. */
  readonly subject: string
  /** Address of the CRL for certificates to name; undefined for none. */
  readonly crlUrl: string | undefined
}

interface Root {
  readonly x509: X509
  readonly certificate: InstanceType<X509['X509Certificate']>
  readonly pem: string
  readonly key: KeyObject
  readonly signingKey: webcrypto.CryptoKey
  /** The same in every certificate that it signs. */
  readonly extensions: readonly InstanceType<X509['Extension']>[]
}

const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' }
const hourMs = 3_600_000
const rootYears = 20
/** Clocks of devices may be minutes behind. */
const skewMs = 300_000
/** A CRL is valid for a week, and made again when it is an hour old. */
const crlLifetimeMs = 7 * 24 * hourMs
const crlFreshMs = hourMs

export function openBuiltinAuthority({ store, subject, crlUrl }: Parts): Authority {
  let root: Promise<Root> | undefined
  let made: { readonly revision: bigint; readonly atMs: number; readonly crl: Buffer } | undefined

  async function openRoot(): Promise<Root> {
    const x509 = await loadX509()
    let kept = await store.find()
    if (kept === undefined) {
      await store.keep(await makeRoot(x509, subject))
      // Another instance may have been first.
      kept = (await store.find())!
    }
    const key = createPrivateKey(kept.privateKey)
    const signingKey = key.toCryptoKey(algorithm, false, ['sign'])
    const certificate = new x509.X509Certificate(kept.certificate)
    const extensions = [
      new x509.BasicConstraintsExtension(false, undefined, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
      new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.clientAuth]),
      await x509.AuthorityKeyIdentifierExtension.create(certificate.publicKey),
      ...(crlUrl === undefined ? [] : [new x509.CRLDistributionPointsExtension([crlUrl])]),
    ]
    return { x509, certificate, pem: kept.certificate, key, signingKey, extensions }
  }

  function opened(): Promise<Root> {
    root ??= openRoot().catch((error: unknown) => {
      root = undefined
      throw error
    })
    return root
  }

  return {
    name: 'builtin',
    start: async () => undefined,

    async sign(request) {
      return signLeaf(await opened(), request)
    },

    // The CRL is made from what the database says is revoked.
    revoke: async () => undefined,

    async crl() {
      // Read before the entries: a revocation in between changes the revision, and the next call makes another CRL.
      const revision = await store.revision()
      const now = new Date()
      if (made !== undefined && made.revision === revision && now.getTime() - made.atMs < crlFreshMs) return made.crl
      const { x509, certificate, key } = await opened()
      const aki = await x509.AuthorityKeyIdentifierExtension.create(certificate.publicKey)
      const content = {
        ...(await store.revoked()),
        issuer: new Uint8Array(certificate.subjectName.toArrayBuffer()),
        thisUpdate: new Date(now.getTime() - skewMs),
        nextUpdate: new Date(now.getTime() + crlLifetimeMs),
        authorityKeyIdentifier: new Uint8Array(aki.rawData),
      }
      made = { revision, atMs: now.getTime(), crl: await encodeCrl(content, key) }
      return made.crl
    },

    close: async () => undefined,
  }
}

async function makeRoot(x509: X509, subject: string): Promise<AuthorityKeys> {
  const { privateKey, publicKey } = await promisify(generateKeyPair)('ec', { namedCurve: algorithm.namedCurve })
  const keys = {
    privateKey: privateKey.toCryptoKey(algorithm, false, ['sign']),
    publicKey: publicKey.toCryptoKey(algorithm, true, ['verify']),
  }
  const now = Date.now()
  const certificate = await x509.X509CertificateGenerator.createSelfSigned({
    serialNumber: newSerial(),
    name: nameOf(x509, subject),
    notBefore: new Date(now - skewMs),
    notAfter: new Date(now + rootYears * 365 * 24 * hourMs),
    keys,
    signingAlgorithm: algorithm,
    extensions: [
      new x509.BasicConstraintsExtension(true, 0, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign, true),
      await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
    ],
  })
  return { certificate: certificate.toString('pem'), privateKey: privateKey.export({ format: 'pem', type: 'pkcs8' }).toString() }
}

async function signLeaf(root: Root, { thing, publicKey, ttlSeconds }: SigningRequest): Promise<SignedCertificate> {
  const { x509, certificate: issuer } = root
  // RFC 7093 §2 (4), which needs no parsed key.
  const keyId = new x509.SubjectKeyIdentifierExtension(hash('sha256', publicKey))
  const now = Date.now()
  const certificate = await x509.X509CertificateGenerator.create({
    serialNumber: newSerial(),
    subject: nameOf(x509, thing),
    issuer: issuer.subjectName,
    notBefore: new Date(now - skewMs),
    notAfter: new Date(Math.min(now + ttlSeconds * 1000, issuer.notAfter.getTime())),
    publicKey: new Uint8Array(publicKey),
    signingKey: root.signingKey,
    signingAlgorithm: algorithm,
    extensions: [...root.extensions, keyId],
  })
  return { certificate: certificate.toString('pem'), issuingCa: root.pem, caChain: null }
}

/** In hex: 16 octets with 126 random bits, positive and always of one length (RFC 5280 §4.1.2.2). */
function newSerial(): string {
  const bytes = randomBytes(16)
  bytes[0] = (bytes[0]! & 0x3f) | 0x40
  return bytes.toString('hex')
}
