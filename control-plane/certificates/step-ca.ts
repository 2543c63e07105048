// The authority is a step-ca server of smallstep: one-time tokens of a JWK provisioner over its HTTPS API, and passive revocation.

import { createPrivateKey, createPublicKey, type JsonWebKey, type KeyObject, randomUUID } from 'node:crypto'
import { SecretError } from '../../config/secrets.ts'
import { readTlsFiles } from '../../config/tls-files.ts'
import { type OutsideRequests, openOutsideRequests } from '../outside-requests.ts'
import { type Authority, authorityAway, authorityRefusal } from './authority.ts'
import type { CertificatesOptions } from './options.ts'

type Options = CertificatesOptions['stepCa']

interface Provisioner {
  readonly key: KeyObject
  readonly keyId: string
}

/** A token is used at once; clocks may differ by a minute (the server's own leeway). */
const tokenSeconds = 120
/** The server says so of a certificate that it has revoked before. */
const alreadyRevoked = /already revoked/

export function openStepCa(options: Options): Authority {
  const { url, timeoutMs } = options
  const { origin } = new URL(url)
  let requests: OutsideRequests | undefined
  let provisioner: Provisioner | undefined

  /** A token that allows one request about the subject, once (`jti`). */
  async function tokenFor(path: string, subject: string): Promise<string> {
    const { SignJWT } = await import('jose')
    return new SignJWT({})
      .setProtectedHeader({ alg: 'ES256', typ: 'JWT', kid: provisioner!.keyId })
      .setIssuer(options.provisioner)
      .setAudience(`${origin}${path}`)
      .setSubject(subject)
      .setJti(randomUUID())
      .setIssuedAt()
      .setExpirationTime(`${tokenSeconds} s`)
      .sign(provisioner!.key)
  }

  async function revoke(serial: string): Promise<void> {
    const path = '/1.0/revoke'
    const decimal = BigInt(`0x${serial}`).toString()
    const answer = await requests!.send('POST', path, { serial: decimal, ott: await tokenFor(path, decimal), passive: true })
    if (answer.status === 200) return
    // By an attempt whose answer did not arrive, and which may be at work still: it is over when the CRL says so.
    const isOver = alreadyRevoked.test(answer.body.toString()) && (await crl()).includes(integerOf(serial))
    if (!isOver) throw requests!.unusable(answer)
  }

  async function crl(): Promise<Buffer> {
    const answer = await requests!.send('GET', '/1.0/crl')
    if (answer.status !== 200) throw requests!.unusable(answer)
    return answer.body
  }

  return {
    name: 'step-ca',

    async start() {
      const tls = await readTlsFiles('certificates.step_ca', options)
      provisioner = await readProvisioner(options)
      requests = openOutsideRequests({ name: 'step-ca', sentence: authorityAway, url, ca: tls?.ca, timeoutMs })
    },

    async sign({ thing, csr, ttlSeconds }) {
      const path = '/1.0/sign'
      const answer = await requests!.send('POST', path, { csr, ott: await tokenFor(path, thing), notAfter: `${ttlSeconds}s` })
      const signed = requests!.jsonOf(answer, [400, 403]) as { message?: string; certChain?: readonly string[] }
      if (answer.status !== 201) throw authorityRefusal(signed.message ?? '')
      const [certificate = '', ...caChain] = signed.certChain ?? []
      return { certificate, issuingCa: caChain[0] ?? '', caChain }
    },

    async revoke(serials) {
      await Promise.all(serials.map(revoke))
    },

    crl,

    close: async () => requests?.close(),
  }
}

/** A serial as it stands in a CRL: an INTEGER in DER. */
function integerOf(serial: string): Buffer {
  const content = serial >= '8' ? `00${serial}` : serial
  return Buffer.from(`02${(content.length / 2).toString(16).padStart(2, '0')}${content}`, 'hex')
}

/** @throws SecretError for what is no private key of P-256 */
async function readProvisioner({ key: text = '', keyId }: Options): Promise<Provisioner> {
  try {
    const jwk = text.trimStart().startsWith('{') ? (JSON.parse(text) as JsonWebKey) : undefined
    const key = jwk === undefined ? createPrivateKey(text) : createPrivateKey({ key: jwk, format: 'jwk' })
    if (key.asymmetricKeyDetails?.namedCurve !== 'prime256v1') throw new Error('its curve is not P-256')
    const { calculateJwkThumbprint } = await import('jose')
    // What the server calls a key that it made.
    const thumbprint = await calculateJwkThumbprint(createPublicKey(key).export({ format: 'jwk' }))
    return { key, keyId: keyId ?? (jwk?.['kid'] as string | undefined) ?? thumbprint }
  } catch (cause) {
    throw new SecretError("certificates.step_ca.key is no private key of P-256: give the provisioner's, decrypted, as JWK or as PEM", {
      cause,
    })
  }
}
