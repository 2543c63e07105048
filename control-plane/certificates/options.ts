// The section `certificates`: which authority signs, for how long, and how an authority outside is reached.

import { type Static, Type } from 'typebox'
import type { OptionFault } from '../../config/options.ts'

const timeoutMs = Type.Integer({
  default: 5_000,
  minimum: 10,
  maximum: 60_000,
  description: 'Milliseconds that one of its answers may take; without an answer a request is 503, and nothing is kept.',
})
const caFile = (whose: string) =>
  Type.Optional(Type.String({ minLength: 1, description: `Root of ${whose} own HTTPS certificate, as PEM, in place of the system's.` }))

export const certificatesOptions = Type.Object({
  mode: Type.Enum(['pki', 'development'], {
    default: 'pki',
    description: 'With `development` certificates are issued by the authority `builtin`, and none is renewed or revoked.',
  }),
  backend: Type.Enum(['builtin', 'step-ca', 'vault'], {
    default: 'builtin',
    description:
      'Which authority signs: one of its own in the database, a step-ca server, or the PKI of a HashiCorp Vault or OpenBao server. Read in mode `pki`. What another one has issued is neither listed nor revoked.',
  }),
  ttlHours: Type.Integer({
    default: 2_400,
    minimum: 1,
    maximum: 87_600,
    description: 'Hours that a certificate is valid where a request does not say.',
  }),
  ttlHoursMax: Type.Integer({
    default: 8_760,
    minimum: 1,
    maximum: 87_600,
    description: 'Hours that a request may ask for at most.',
  }),
  subject: Type.String({
    default: 'Sluice',
    minLength: 1,
    maxLength: 64,
    description: 'Common name of the authority `builtin`. It is made with the first certificate, and keeps the name of then.',
  }),
  crlUrl: Type.Optional(
    Type.String({
      minLength: 1,
      allowed: 'a URL such as https://sluice.example/certs/crl',
      description:
        'Where others reach `/certs/crl`: certificates of `builtin` name it as their CRL distribution point. Without it they name none.',
    }),
  ),
  stepCa: Type.Object({
    url: Type.String({
      default: 'https://127.0.0.1:9443',
      minLength: 1,
      allowed: 'a URL such as https://step-ca:9443',
      description: 'Address of the step-ca server.',
    }),
    caFile: caFile("the server's"),
    provisioner: Type.String({ default: 'sluice', minLength: 1, description: 'Name of its JWK provisioner.' }),
    key: Type.Optional(
      Type.String({ minLength: 1, secret: true, description: "The provisioner's private key (EC P-256), as JWK or as PEM." }),
    ),
    keyId: Type.Optional(
      Type.String({ minLength: 1, description: "The key's id there, where it is neither in the JWK nor the key's thumbprint." }),
    ),
    timeoutMs,
  }),
  vault: Type.Object({
    url: Type.String({
      default: 'http://127.0.0.1:8200',
      minLength: 1,
      allowed: 'a URL such as https://vault:8200',
      description: 'Address of the Vault or OpenBao server.',
    }),
    caFile: caFile("the server's"),
    mount: Type.String({ default: 'pki', pattern: '^[\\w.-]+(/[\\w.-]+)*$', description: 'Where its PKI engine is mounted.' }),
    role: Type.String({ default: 'sluice', pattern: '^[\\w.-]+$', description: 'The role that signs.' }),
    namespace: Type.Optional(Type.String({ minLength: 1, description: 'The namespace of the mount, where there is one.' })),
    token: Type.Optional(
      Type.String({ minLength: 1, pattern: '^[!-~]+$', secret: true, description: 'A token that may sign with the role, and revoke.' }),
    ),
    timeoutMs,
  }),
})
export type CertificatesOptions = Static<typeof certificatesOptions>

/** What a schema cannot say of them. */
export function certificatesFaults({ mode, backend, ttlHours, ttlHoursMax, crlUrl, stepCa, vault }: CertificatesOptions): OptionFault[] {
  const faults: OptionFault[] = []
  const note = (place: string, problem: string): void => void faults.push({ place: `certificates.${place}`, problem })
  if (ttlHours > ttlHoursMax) note('ttl_hours', `is more than certificates.ttl_hours_max, ${ttlHoursMax}: lower it, or raise that one`)
  if (crlUrl !== undefined && !isServerUrl(crlUrl))
    note('crl_url', 'is no address of an HTTP server: give a URL such as https://sluice.example/certs/crl')
  if (mode === 'development' || backend === 'builtin') return faults
  if (backend === 'step-ca') {
    if (!isServerUrl(stepCa.url, /^https:$/))
      note('step_ca.url', 'is no address of an HTTPS server: give a URL such as https://step-ca:9443')
    if (stepCa.key === undefined) note('step_ca.key', "is needed to sign one-time tokens: give the provisioner's private key")
  } else {
    if (!isServerUrl(vault.url)) note('vault.url', 'is no address of an HTTP server: give a URL such as https://vault:8200')
    if (vault.token === undefined) note('vault.token', 'is needed: give a token that may sign with the role, and revoke')
  }
  return faults
}

/** Without a user, a password, a query or a fragment: an address is logged. */
function isServerUrl(text: string, protocol = /^https?:$/): boolean {
  if (!URL.canParse(text)) return false
  const { protocol: given, username, password, search, hash } = new URL(text)
  return protocol.test(given) && `${username}${password}${search}${hash}` === ''
}
