// Certificate signing requests (PKCS #10, RFC 2986): those of clients, checked, and those made here with a new pair of keys.

import { createPublicKey, generateKeyPair, type KeyObject } from 'node:crypto'
import { promisify } from 'node:util'
import type * as X509Library from '@peculiar/x509'
import { networkOf } from '../../config/http/client-address.ts'
import { HttpError } from '../../config/http/errors.ts'
import { type FairQueueOptions, openFairQueue } from '../fair-queue.ts'
import type { ThingId } from '../ids.ts'
import type { Caller } from '../writes.ts'

/** A request whose signature was made by the key that it names, and whose key is good enough. */
export interface Csr {
  /** PEM. */
  readonly csr: string
  readonly keyType: KeyType
  /** SubjectPublicKeyInfo, as DER. */
  readonly publicKey: Buffer
  /** PKCS #8 as PEM, where the pair was made here; a secret. */
  readonly privateKey?: string
}

export const keyTypes = ['rsa', 'ec'] as const
export type KeyType = (typeof keyTypes)[number]
/** Of RSA keys that are made here. */
export const rsaBits = [2048, 3072, 4096] as const
export type RsaBits = (typeof rsaBits)[number]
/** P-256 for `ec`. */
export type NewKey = { readonly type: 'rsa'; readonly bits: RsaBits } | { readonly type: 'ec' }

/** A request of RSA 4096 has 1.7 KB as PEM; one with many names stays below this. */
export const csrBytesMax = 16_384

export type X509 = typeof X509Library

/** The library takes 0.1 s to load, which only those pay who use certificates. */
export async function loadX509(): Promise<X509> {
  await import('reflect-metadata')
  return import('@peculiar/x509')
}

/**
 * A client's request, which may hold anything. Its subject and extensions are not looked at: no certificate takes them over.
 *
 * @param pem at most `csrBytesMax` characters
 * @param pointer where it stands
 * @throws HttpError `malformed_request` for what is no request, a key that is weak or of an unknown kind, and a signature of another key
 */
export async function checkCsr(pem: string, pointer: string): Promise<Csr> {
  const refuse = (detail: string): never => refusePlace(pointer, detail)
  const der = derOf(pem) ?? refuse('is no CSR: give one as PEM, from -----BEGIN CERTIFICATE REQUEST----- to its end')
  const { Pkcs10CertificateRequest } = await loadX509()
  try {
    const request = new Pkcs10CertificateRequest(der)
    const publicKey = Buffer.from(request.publicKey.rawData)
    const key = createPublicKey({ key: publicKey, format: 'der', type: 'spki' })
    // Before the signature is looked at: with an enormous key that alone takes long.
    const problem = keyProblem(key) ?? (goodHashes.has(request.signatureAlgorithm.hash?.name) ? undefined : weakHash)
    if (problem !== undefined) return refuse(problem)
    if (!(await request.verify())) return refuse('is not signed by its own key: make it again')
    return { csr: request.toString('pem'), keyType: key.asymmetricKeyType as KeyType, publicKey }
  } catch (error) {
    if (error instanceof HttpError) throw error
    // Whatever the parsers throw of bytes that they cannot read.
    return refuse('cannot be read: make it again, with a key of RSA or of the curve P-256, P-384 or P-521')
  }
}

/** @throws HttpError `malformed_request` that names one place */
export function refusePlace(pointer: string, detail: string): never {
  throw new HttpError('malformed_request', undefined, { faults: [{ pointer, detail }] })
}

const goodHashes: ReadonlySet<string | undefined> = new Set(['SHA-256', 'SHA-384', 'SHA-512'])
const weakHash = 'is signed with a weak hash: make it with SHA-256'
const curves: ReadonlySet<string | undefined> = new Set(['prime256v1', 'secp384r1', 'secp521r1'])
const goodKeys = 'make it with RSA of 2048 to 4096 bits, or with the curve P-256, P-384 or P-521'

function keyProblem({ asymmetricKeyType: type, asymmetricKeyDetails: details = {} }: KeyObject): string | undefined {
  if (type === 'ec') return curves.has(details.namedCurve) ? undefined : `has a key of another curve: ${goodKeys}`
  if (type !== 'rsa') return `has a key of another kind: ${goodKeys}`
  const { modulusLength = 0, publicExponent = 0n } = details
  if (modulusLength < 2048 || modulusLength > 4096) return `has an RSA key of ${modulusLength} bits: ${goodKeys}`
  // NIST SP 800-56B §6.2, but no more than any library makes.
  return publicExponent < 65_537n || publicExponent > 0xffff_ffffn
    ? 'has an RSA key with an unusual exponent: make it with 65537'
    : undefined
}

const begin = '-----BEGIN CERTIFICATE REQUEST-----'
const end = '-----END CERTIFICATE REQUEST-----'

/** The bytes of one block of PEM (RFC 7468 §7), also with the word NEW in it; undefined for anything else. */
function derOf(pem: string): Buffer | undefined {
  const text = pem.trim().replaceAll(' NEW CERTIFICATE REQUEST', ' CERTIFICATE REQUEST')
  if (!text.startsWith(begin) || !text.endsWith(end)) return undefined
  const base64 = text.slice(begin.length, -end.length).replace(/\s/g, '')
  const der = Buffer.from(base64, 'base64')
  return /^[A-Za-z0-9+/]+={0,2}$/.test(base64) && isOneSequence(der) ? der : undefined
}

/** A SEQUENCE of a definite length with nothing behind it (X.690 §8.1.3), which the parser would not see. */
function isOneSequence(der: Buffer): boolean {
  if (der.length < 4 || der[0] !== 0x30) return false
  const octets = der[1]! < 0x80 ? 0 : der[1]! & 0x7f
  return octets <= 2 && der.length === 2 + octets + (octets === 0 ? der[1]! : der.readUIntBE(2, octets))
}

export interface NewCsrs {
  /**
   * A new pair of keys, and the request of a certificate for it. Making an RSA key takes up to some seconds, in which the process goes on.
   *
   * @throws HttpError `too_many_requests`, or `unavailable`, when too many RSA keys are being made
   */
  make(by: Caller, thing: ThingId, key: NewKey): Promise<Csr>
}

/** One of libuv's four threads: two hash passwords, and files and name look-ups need the last. 4096 bits take about a second. */
const keyWork = {
  what: ['keys', 'made'],
  concurrentMax: 1,
  jobsMax: 60,
  addressJobsMax: 30,
  accountJobsMax: 15,
} as const satisfies FairQueueOptions

const makePair = promisify(generateKeyPair)
const ecAlgorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' }
const rsaAlgorithm = { name: 'RSASSA-PKCS1-v1_5', hash: 'SHA-256' }

export function openNewCsrs(): NewCsrs {
  const queue = openFairQueue(keyWork)
  return {
    async make({ user, address = '' }, thing, key) {
      const { privateKey, publicKey } =
        key.type === 'ec'
          ? await makePair('ec', { namedCurve: ecAlgorithm.namedCurve })
          : await queue.run({ account: user, address: networkOf(address) }, () => makePair('rsa', { modulusLength: key.bits }))
      const algorithm = key.type === 'ec' ? ecAlgorithm : rsaAlgorithm
      const x509 = await loadX509()
      const request = await x509.Pkcs10CertificateRequestGenerator.create({
        name: nameOf(x509, thing),
        keys: {
          privateKey: privateKey.toCryptoKey(algorithm, false, ['sign']),
          publicKey: publicKey.toCryptoKey(algorithm, true, ['verify']),
        },
        signingAlgorithm: algorithm,
      })
      return {
        csr: request.toString('pem'),
        keyType: key.type,
        publicKey: publicKey.export({ format: 'der', type: 'spki' }),
        privateKey: privateKey.export({ format: 'pem', type: 'pkcs8' }).toString(),
      }
    },
  }
}

/** A subject that is a common name alone, whatever characters it has. */
export function nameOf({ Name }: Pick<X509, 'Name'>, commonName: string): InstanceType<X509['Name']> {
  return new Name([{ CN: [{ utf8String: commonName }] }])
}
