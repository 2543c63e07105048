// The authority is a step-ca server of smallstep: its HTTPS API with one-time tokens of a JWK provisioner, and passive revocation.

import { createPrivateKey, createPublicKey, type JsonWebKey, type KeyObject, randomUUID } from 'node:crypto'
import { SecretError } from '../../../config/secrets.ts'
import { readTlsFiles } from '../../../http/tls-files.ts'
import { type OutsideRequests, openOutsideRequests } from '../../outside/requests.ts'
import type { CertificatesOptions } from '../options.ts'
import { type Authority, authorityAway, authorityRefusal, crlBytesMax } from './authority.ts'

type Options = CertificatesOptions['stepCa']

interface Provisioner {
  readonly key: KeyObject
  readonly keyId: string
}

/** A token is used immediately. Clocks may differ by a minute, which is the server's leeway. */
const tokenSeconds = 120
/** The server's answer for a certificate that is revoked already. */
const alreadyRevoked = /already revoked/

export function openStepCa(options: Options): Authority {
  const { url, timeoutMs } = options
  const { origin } = new URL(url)
  let requests: OutsideRequests | undefined
  let provisioner: Provisioner | undefined

  /** A token for one request about the subject, valid once (`jti`). */
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

  return {
    name: 'step-ca',

    async start() {
      const tls = await readTlsFiles('certificates.step_ca', options)
      provisioner = await readProvisioner(options)
      requests = openOutsideRequests({ name: 'step-ca', sentence: authorityAway, url, ca: tls?.ca, timeoutMs, answerBytesMax: crlBytesMax })
    },

    async sign({ thing, csr, ttlSeconds }) {
      const path = '/1.0/sign'
      const answer = await requests!.send('POST', path, { csr: await csr(), ott: await tokenFor(path, thing), notAfter: `${ttlSeconds}s` })
      const signed = requests!.jsonOf(answer, [400, 403]) as { message?: string; certChain?: readonly string[] }
      if (answer.status !== 201) throw authorityRefusal(signed.message ?? '')
      const [certificate = '', ...caChain] = signed.certChain ?? []
      return { certificate, issuingCa: caChain[0] ?? '', caChain }
    },

    async revoke(serial) {
      const path = '/1.0/revoke'
      const decimal = BigInt(`0x${serial}`).toString()
      const answer = await requests!.send('POST', path, { serial: decimal, ott: await tokenFor(path, decimal), passive: true })
      if (answer.status !== 200 && !alreadyRevoked.test(answer.body.toString())) throw requests!.unusable(answer)
    },

    async crl() {
      const answer = await requests!.send('GET', '/1.0/crl')
      if (answer.status !== 200) throw requests!.unusable(answer)
      return answer.body
    },

    close: async () => requests?.close(),
  }
}

/** @throws SecretError for anything but a private key of P-256 */
async function readProvisioner({ key: text = '', keyId }: Options): Promise<Provisioner> {
  try {
    const jwk = text.trimStart().startsWith('{') ? (JSON.parse(text) as JsonWebKey) : undefined
    const key = jwk === undefined ? createPrivateKey(text) : createPrivateKey({ key: jwk, format: 'jwk' })
    if (key.asymmetricKeyDetails?.namedCurve !== 'prime256v1') throw new Error('its curve is not P-256')
    const { calculateJwkThumbprint } = await import('jose')
    // The id that the server gives to keys it makes.
    const thumbprint = await calculateJwkThumbprint(createPublicKey(key).export({ format: 'jwk' }))
    return { key, keyId: keyId ?? (jwk?.['kid'] as string | undefined) ?? thumbprint }
  } catch (cause) {
    throw new SecretError("certificates.step_ca.key is not a P-256 private key: give the provisioner's, decrypted, as JWK or as PEM", {
      cause,
    })
  }
}
