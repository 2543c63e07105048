// Requests and answers of certificates (SPEC §2, §4), and the same under the names of older clients.

import { Type } from 'typebox'
import { bodyCodes, errorAnswers } from '../../http/openapi/error-schema.ts'
import { exampleIds, idSchema } from '../ids.ts'
import { emptyAnswer, headersOf, tokenRequired } from '../requests/answers.ts'
import { pageAnswer, pageOptions, pageQuery } from '../requests/page.ts'
import { csrBytesMax } from './csr.ts'

const needsToken = { tags: ['certificates'], security: tokenRequired }
const thing = idSchema('thing', "The thing's id.")
/** RFC 5280 §4.1.2.2: at most 20 octets. */
const serial = Type.String({
  pattern: '^[0-9a-fA-F]{1,40}$',
  allowed: 'a serial in hex',
  description: "The certificate's serial, in hex.",
  examples: ['5f0c2b7e8d1a4c479a520c4d6f1be7a9'],
})
const timestamp = (description: string) => Type.String({ description, examples: ['2027-03-01T08:30:00Z'] })
type PemKind = 'CERTIFICATE' | 'PRIVATE KEY'
export const pemExample = (kind: PemKind): string => `-----BEGIN ${kind}-----\n…\n-----END ${kind}-----\n`
export const pemSchema = (kind: PemKind, description: string) => Type.String({ description, examples: [pemExample(kind)] })
const pem = (description: string) => pemSchema('CERTIFICATE', description)
const chain = (description: string) => Type.Union([Type.Array(pem('A certificate.')), Type.Null()], { description })
const key = (description: string) => Type.Optional(pemSchema('PRIVATE KEY', description))
const thingId = Type.String({ examples: [exampleIds.thing] })

export const ttlSchema = Type.Optional(
  Type.String({ maxLength: 64, description: 'How long it is valid: `2400h`, `90m`, or seconds as digits.', examples: ['2400h'] }),
)
const valid = Type.Optional(Type.String({ maxLength: 64, description: 'The same, with hours as digits.' }))
const csrOptions = {
  maxLength: csrBytesMax,
  description:
    "A signing request (PKCS #10) as PEM, for a key that the device keeps. Its signature is checked, and its names are ignored: the subject is the thing's id.",
}
/** Of a P-256 key that was thrown away: the request can be sent as it stands. */
export const csrExample = `-----BEGIN CERTIFICATE REQUEST-----
MIHOMHYCAQAwFDESMBAGA1UEAwwJZ2F0ZXdheS03MFkwEwYHKoZIzj0CAQYIKoZI
zj0DAQcDQgAEQl1uPV0wN1srMVrn0Hw/QT6Ha3ZZH/26/ayL1zG2giVc+KtNVxC0
BHaSvKd7/TQZ7+fTdtwk16PG3C0EW7Lmk6AAMAoGCCqGSM49BAMCA0gAMEUCIGjV
qSODJWOLsrK9CEFHEv+jwEIZ4R7dC7z5iLzp0lWlAiEArtK2Ju8WaT16QM94RVE5
6Xo6g9dgr0YMZ1/GQJfYyZU=
-----END CERTIFICATE REQUEST-----
`
export const csrSchema = Type.String({ ...csrOptions, examples: [csrExample] })
/** Without an example, so that the one of the body asks for a new key. */
const csr = Type.Optional(Type.String(csrOptions))
const bits = (description: string, examples?: [number]) =>
  Type.Optional(Type.Integer({ minimum: 0, maximum: 65_536, description, ...(examples && { examples }) }))

const record = {
  ThingID: thingId,
  ClientCert: pem('The certificate, as PEM.'),
  IssuingCA: pem('The certificate of the authority that signed it.'),
  CAChain: chain('From `IssuingCA` up to the root; null if that is the root.'),
  ClientKey: key('The private key (PKCS #8), returned only this once and not stored; absent if a CSR was given.'),
  PrivateKeyType: Type.Enum(['rsa', 'ec']),
  Serial: serial,
  Expire: timestamp('When it expires.'),
  thing_id: thingId,
  cert: pem('The same as `ClientCert`.'),
  client_cert: pem('The same.'),
  client_key: key('The same as `ClientKey`.'),
  issuing_ca: pem('The same as `IssuingCA`.'),
  ca_chain: chain('The same as `CAChain`.'),
  cert_serial: serial,
  expiration: timestamp('The same as `Expire`.'),
}
export const issuedSchema = Type.Object(record, { title: 'IssuedCertificate', description: 'The certificate.' })

export const issueSchema = {
  ...needsToken,
  operationId: 'issueCertificate',
  summary: 'Issue a certificate for a thing of yours',
  description: 'For the key of the CSR, or for a new key without one. Older clients, which send their token without `Bearer`, get 200.',
  body: Type.Object(
    {
      thing_id: thing,
      key_type: Type.Optional(
        Type.String({ maxLength: 8, description: '`rsa` (the default) or `ec` (P-256); case is ignored.', examples: ['rsa'] }),
      ),
      rsa_bits: bits('2048 (the default), 3072 or 4096. Ignored for `ec`.', [2048]),
      key_bits: bits('The same.'),
      ttl: ttlSchema,
      valid,
      csr,
    },
    { title: 'NewCertificate' },
  ),
  response: {
    200: issuedSchema,
    201: issuedSchema,
    ...errorAnswers(...bodyCodes, 'unauthenticated', 'forbidden', 'not_found', 'conflict'),
  },
}

const renewedSchema = Type.Object(
  {
    ...record,
    previous_serial: serial,
    previous_revoked: Type.Boolean({ description: 'false: the previous certificate stays valid until it expires.', examples: [false] }),
  },
  { title: 'RenewedCertificate', description: 'The new certificate.' },
)

export const renewSchema = {
  ...needsToken,
  operationId: 'renewCertificate',
  summary: 'Renew a certificate of a thing of yours',
  description:
    'Issues another one for the same thing: for the key of the CSR, which may be the old key, or for a new key of the same kind without one.',
  params: Type.Object({ serial }),
  body: Type.Object(
    { ttl: ttlSchema, valid, csr, revoke_previous: Type.Boolean({ default: false, description: 'Revoke the previous certificate.' }) },
    { title: 'CertificateRenewal', optionalBody: true },
  ),
  response: {
    200: renewedSchema,
    201: renewedSchema,
    ...errorAnswers(...bodyCodes, 'unauthenticated', 'forbidden', 'not_found', 'conflict'),
  },
}

const certificateSchema = Type.Object(
  {
    thing_id: thingId,
    cert: pem('As PEM.'),
    cert_serial: serial,
    expiration: timestamp('When it expires.'),
    revocation_time: Type.Optional(Type.String({ description: 'When it was revoked; absent if it was not.' })),
  },
  { title: 'Certificate', description: 'The certificate, without a key.' },
)

export const viewSchema = {
  ...needsToken,
  operationId: 'viewCertificate',
  summary: 'View a certificate of a thing of yours',
  params: Type.Object({ serial }),
  response: { 200: certificateSchema, ...errorAnswers('unauthenticated', 'forbidden', 'not_found') },
}

export const listSchema = {
  ...needsToken,
  operationId: 'listCertificates',
  summary: 'List the certificates of a thing of yours',
  description: 'In the order of issue, including revoked ones, and expired ones for a week or longer.',
  params: Type.Object({ thing }),
  querystring: Type.Object(pageQuery),
  response: {
    200: Type.Object({ ...pageAnswer, certs: Type.Array(certificateSchema) }, pageOptions('CertificatesPage')),
    ...errorAnswers('unauthenticated', 'forbidden', 'not_found'),
  },
}

const revoked = {
  200: Type.Object(
    { revocation_time: timestamp('When the last of them was revoked.'), RevocationTime: timestamp('The same.') },
    { title: 'Revocation', description: 'The certificates are revoked, and access with them is refused.' },
  ),
  ...errorAnswers('unauthenticated', 'forbidden', 'not_found', 'conflict'),
}

export const revokeSchema = {
  ...needsToken,
  operationId: 'revokeCertificates',
  summary: 'Revoke the certificates of a thing of yours',
  description: 'All of them, or the one with the given serial. Returns 409 in mode `development`.',
  body: Type.Object({ thing_id: thing, serial: Type.Optional(serial) }, { title: 'CertificateRevocation' }),
  response: { ...revoked, ...errorAnswers(...bodyCodes) },
}

export const revokeAllSchema = {
  ...needsToken,
  operationId: 'revokeAllCertificates',
  summary: 'Revoke all certificates of a thing of yours',
  description: 'As DELETE /certs/revoke. Older clients, which send `DELETE /<thing id>` without `/certs`, get 204.',
  params: Type.Object({ thing }),
  response: { ...revoked, 204: emptyAnswer('The same, for older clients.') },
}

export const crlTypes = { der: 'application/pkix-crl', pem: 'application/x-pem-file' } as const

export const crlSchema = {
  tags: ['certificates'],
  security: [],
  operationId: 'getRevokedCertificates',
  summary: 'Get the list of revoked certificates',
  description:
    'Needs no token. Contains every revocation whose request was answered; with step-ca or Vault, once that has revoked it, usually within a second or two. DER, or PEM if `Accept` prefers that.',
  produces: Object.values(crlTypes),
  headers: Type.Object({
    'if-none-match': Type.Optional(
      Type.String({ description: 'An `ETag` of an earlier answer: 304 if the CRL is the same.', examples: ['"3f2a"'] }),
    ),
  }),
  response: {
    200: Type.Unsafe<Buffer>(
      Type.String({
        description: 'The CRL (RFC 5280 §5).',
        examples: ['-----BEGIN X509 CRL-----\n…'],
        ...headersOf({ ETag: 'For If-None-Match.' }),
      }),
    ),
    304: emptyAnswer('Not changed.'),
    ...errorAnswers('conflict'),
  },
}
