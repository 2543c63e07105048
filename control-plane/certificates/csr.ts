// Certificate signing requests (PKCS #10, RFC 2986): those of clients, checked, and new key pairs that make one on demand.

import { createPublicKey, generateKeyPair, type KeyObject, type KeyPairKeyObjectResult } from 'node:crypto'
import { promisify } from 'node:util'
import type * as X509Library from '@peculiar/x509'
import { HttpError } from '../../http/errors.ts'
import { networkOf } from '../../http/requests/client-address.ts'
import type { ThingId } from '../ids.ts'
import { type FairQueueOptions, openFairQueue } from '../outside/fair-queue.ts'
import type { Caller } from '../writes.ts'

/** An accepted public key, and a request signed with its private key. */
export interface Csr {
  /** PEM. */
  readonly csr: () => Promise<string>
  readonly keyType: KeyType
  /** SubjectPublicKeyInfo, as DER. */
  readonly publicKey: Buffer
  /** PKCS #8 as PEM, if the pair was made here; a secret. */
  readonly privateKey?: string
}

export const keyTypes = ['rsa', 'ec'] as const
export type KeyType = (typeof keyTypes)[number]
/** Sizes of the RSA keys made here. */
export const rsaBits = [2048, 3072, 4096] as const
export type RsaBits = (typeof rsaBits)[number]
/** P-256 for `ec`. */
export type NewKey = { readonly type: 'rsa'; readonly bits: RsaBits } | { readonly type: 'ec' }

/** A request with RSA 4096 has 1.7 KB as PEM, and one with many names fits in this. */
export const csrBytesMax = 16_384

export type X509 = typeof X509Library

/** Loaded on first use, because it takes 0.1 s. */
export async function loadX509(): Promise<X509> {
  await import('reflect-metadata')
  return import('@peculiar/x509')
}

/**
 * Checks a client's request, which may be any text. Its subject and extensions are ignored: no certificate takes them over.
 *
 * @param pem at most `csrBytesMax` characters
 * @param pointer its place in the request, for the error
 * @throws HttpError `malformed_request` for anything but a CSR, a weak key or one of an unknown kind, and a signature of another key
 */
export async function checkCsr(pem: string, pointer: string): Promise<Csr> {
  const refuse = (detail: string): never => refusePlace(pointer, detail)
  const der = derOf(pem) ?? refuse('is not a CSR: give one as PEM, from -----BEGIN CERTIFICATE REQUEST----- to its end')
  const { Pkcs10CertificateRequest } = await loadX509()
  try {
    const request = new Pkcs10CertificateRequest(der)
    const publicKey = Buffer.from(request.publicKey.rawData)
    const key = createPublicKey({ key: publicKey, format: 'der', type: 'spki' })
    // Before the signature: checking one of an enormous key takes long.
    const problem = keyProblem(key) ?? (goodHashes.has(request.signatureAlgorithm.hash?.name) ? undefined : weakHash)
    if (problem !== undefined) return refuse(problem)
    if (!(await request.verify())) return refuse('is not signed by its own key: make it again')
    return { csr: async () => request.toString('pem'), keyType: key.asymmetricKeyType as KeyType, publicKey }
  } catch (error) {
    if (error instanceof HttpError) throw error
    // Parsers throw errors of many kinds.
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
  if (type === 'ec') return curves.has(details.namedCurve) ? undefined : `has a key on an unsupported curve: ${goodKeys}`
  if (type !== 'rsa') return `has a key of an unsupported kind: ${goodKeys}`
  const { modulusLength = 0, publicExponent = 0n } = details
  if (modulusLength < 2048 || modulusLength > 4096) return `has an RSA key of ${modulusLength} bits: ${goodKeys}`
  // NIST SP 800-56B §6.2 allows larger ones, which no library makes.
  return publicExponent < 65_537n || publicExponent > 0xffff_ffffn
    ? 'has an RSA key with an unusual exponent: make it with 65537'
    : undefined
}

const begin = '-----BEGIN CERTIFICATE REQUEST-----'
const end = '-----END CERTIFICATE REQUEST-----'

/** The bytes of one PEM block (RFC 7468 §7), also one labelled NEW; undefined for anything else. */
function derOf(pem: string): Buffer | undefined {
  const text = pem.trim().replaceAll(' NEW CERTIFICATE REQUEST', ' CERTIFICATE REQUEST')
  if (!text.startsWith(begin) || !text.endsWith(end)) return undefined
  const base64 = text.slice(begin.length, -end.length).replace(/\s/g, '')
  const der = Buffer.from(base64, 'base64')
  return /^[A-Za-z0-9+/]+={0,2}$/.test(base64) && isOneSequence(der) ? der : undefined
}

/** One SEQUENCE of definite length (X.690 §8.1.3) and nothing after it: the parser would ignore what follows. */
function isOneSequence(der: Buffer): boolean {
  if (der.length < 4 || der[0] !== 0x30) return false
  const octets = der[1]! < 0x80 ? 0 : der[1]! & 0x7f
  return octets <= 2 && der.length === 2 + octets + (octets === 0 ? der[1]! : der.readUIntBE(2, octets))
}

export interface NewCsrs {
  /**
   * Makes a new key pair. An RSA key takes up to some seconds, and does not block the process.
   *
   * @throws HttpError `too_many_requests` or `unavailable` when too many RSA keys are waiting to be made
   */
  make(by: Caller, thing: ThingId, key: NewKey): Promise<Csr>
}

/** One of libuv's four threads: passwords take two, and files and name look-ups need the last. 4096 bits take about a second. */
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
      return {
        csr: () => makeRequest(thing, key.type === 'ec' ? ecAlgorithm : rsaAlgorithm, { privateKey, publicKey }),
        keyType: key.type,
        publicKey: publicKey.export({ format: 'der', type: 'spki' }),
        privateKey: privateKey.export({ format: 'pem', type: 'pkcs8' }).toString(),
      }
    },
  }
}

async function makeRequest(
  thing: ThingId,
  algorithm: typeof ecAlgorithm | typeof rsaAlgorithm,
  { privateKey, publicKey }: KeyPairKeyObjectResult,
): Promise<string> {
  const x509 = await loadX509()
  const request = await x509.Pkcs10CertificateRequestGenerator.create({
    name: nameOf(x509, thing),
    keys: {
      privateKey: privateKey.toCryptoKey(algorithm, false, ['sign']),
      publicKey: publicKey.toCryptoKey(algorithm, true, ['verify']),
    },
    signingAlgorithm: algorithm,
  })
  return request.toString('pem')
}

/** A subject with only a common name, which may hold any characters. */
export function nameOf({ Name }: Pick<X509, 'Name'>, commonName: string): InstanceType<X509['Name']> {
  return new Name([{ CN: [{ utf8String: commonName }] }])
}
