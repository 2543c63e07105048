// The section `certificates`: which authority signs, how long certificates live, and how to reach an authority elsewhere.

import { type Static, Type } from 'typebox'
import type { OptionFault } from '../../config/options/options.ts'

const timeoutMs = Type.Integer({
  default: 5_000,
  minimum: 10,
  maximum: 60_000,
  description: 'Milliseconds that an answer may take; then a request for a certificate gets 503, and a revocation is retried.',
})
const caFile = (whose: string) =>
  Type.Optional(
    Type.String({ minLength: 1, description: `Root of ${whose} own HTTPS certificate, as PEM, instead of the system's roots.` }),
  )

export const certificatesOptions = Type.Object({
  mode: Type.Enum(['pki', 'development'], {
    default: 'pki',
    description: 'With `development` no certificate can be renewed or revoked.',
  }),
  backend: Type.Enum(['builtin', 'step-ca', 'vault'], {
    default: 'builtin',
    description:
      'Which authority signs: one in the database, step-ca, or the PKI of HashiCorp Vault or OpenBao. Certificates of another one are neither listed nor revoked.',
  }),
  ttlHours: Type.Integer({
    default: 2_400,
    minimum: 1,
    maximum: 87_600,
    description: 'Lifetime in hours if the request gives none.',
  }),
  ttlHoursMax: Type.Integer({
    default: 8_760,
    minimum: 1,
    maximum: 87_600,
    description: 'Longest lifetime in hours that a request may give.',
  }),
  perOwnerMax: Type.Integer({
    default: 100_000,
    minimum: 1,
    maximum: 10_000_000,
    description:
      'Most certificates of one owner, valid or revoked, until a week after they expire; at this limit the owner gets no new ones.',
  }),
  subject: Type.String({
    default: 'Sluice',
    minLength: 1,
    maxLength: 64,
    description: 'Common name of the authority `builtin`; fixed by the first certificate.',
  }),
  crlUrl: Type.Optional(
    Type.String({
      minLength: 1,
      allowed: 'a URL such as https://sluice.example/certs/crl',
      description: 'Public address of `/certs/crl`: the CRL distribution point in certificates of `builtin`.',
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
    keyId: Type.Optional(Type.String({ minLength: 1, description: "The key's id, if it is neither in the JWK nor the key's thumbprint." })),
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
    mount: Type.String({ default: 'pki', pattern: '^[\\w.-]+(/[\\w.-]+)*$', description: 'Mount path of its PKI engine.' }),
    role: Type.String({ default: 'sluice', pattern: '^[\\w.-]+$', description: 'The role that signs.' }),
    namespace: Type.Optional(Type.String({ minLength: 1, description: 'Namespace of the mount, if it has one.' })),
    token: Type.Optional(
      Type.String({ minLength: 1, pattern: '^[!-~]+$', secret: true, description: 'A token that may sign with the role, and revoke.' }),
    ),
    tokenFile: Type.Optional(
      Type.String({
        minLength: 1,
        allowed: 'the path of a file',
        description: 'Instead of `token`: a file that contains it, read before each request.',
      }),
    ),
    timeoutMs,
  }),
})
export type CertificatesOptions = Static<typeof certificatesOptions>

/** Faults that a schema cannot express. */
export function certificatesFaults(options: CertificatesOptions): OptionFault[] {
  const { mode, ttlHours, ttlHoursMax, crlUrl } = options
  const faults: OptionFault[] = []
  const note = (place: string, problem: string): void => void faults.push({ place: `certificates.${place}`, problem })
  if (ttlHours > ttlHoursMax) note('ttl_hours', `is more than certificates.ttl_hours_max, ${ttlHoursMax}: lower it, or raise that one`)
  if (crlUrl !== undefined && !isServerUrl(crlUrl))
    note('crl_url', 'is not the address of an HTTP server: give a URL such as https://sluice.example/certs/crl')
  if (mode === 'development' || options.backend === 'builtin') return faults
  const { stepCa, vault } = options
  if (options.backend === 'step-ca') {
    if (!isServerUrl(stepCa.url, /^https:$/))
      note('step_ca.url', 'is not the address of an HTTPS server: give a URL such as https://step-ca:9443')
    if (stepCa.key === undefined) note('step_ca.key', "is needed to sign one-time tokens: give the provisioner's private key")
  } else {
    if (!isServerUrl(vault.url)) note('vault.url', 'is not the address of an HTTP server: give a URL such as https://vault:8200')
    if (vault.token === undefined && vault.tokenFile === undefined)
      note('vault.token', 'is needed: give a token that may sign with the role, and revoke, or certificates.vault.token_file')
  }
  return faults
}

/** Refuses user, password, query and fragment, because addresses are logged. */
function isServerUrl(text: string, protocol = /^https?:$/): boolean {
  if (!URL.canParse(text)) return false
  const { protocol: urlProtocol, username, password, search, hash } = new URL(text)
  return protocol.test(urlProtocol) && `${username}${password}${search}${hash}` === ''
}
