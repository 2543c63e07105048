// Requests and answers of certificates (SPEC §2, §4), and the same under the names of older clients.

import { Type } from 'typebox'
import { bodyCodes, errorAnswers } from '../../config/http/error-schema.ts'
import { tokenRequired } from '../answers.ts'
import { exampleIds, idSchema } from '../ids.ts'
import { pageAnswer, pageOptions, pageQuery } from '../page.ts'
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
const instant = (description: string) => Type.String({ description, examples: ['2027-03-01T08:30:00Z'] })
const pem = (description: string) => Type.String({ description, examples: ['-----BEGIN CERTIFICATE-----\n…'] })
const chain = (description: string) => Type.Union([Type.Array(pem('A certificate.')), Type.Null()], { description })
const key = (description: string) => Type.Optional(Type.String({ description, examples: ['-----BEGIN PRIVATE KEY-----\n…'] }))
const ofThing = Type.String({ examples: [exampleIds.thing] })

const ttl = Type.Optional(
  Type.String({ maxLength: 64, description: 'How long it is valid: `2400h`, `90m`, or seconds as digits.', examples: ['2400h'] }),
)
const valid = Type.Optional(Type.String({ maxLength: 64, description: 'The same, with hours as digits.' }))
const csr = Type.Optional(
  Type.String({
    maxLength: csrBytesMax,
    description:
      "A signing request (PKCS #10) as PEM, for a key that the device keeps. Its signature is checked, and its names are not taken over: the subject is the thing's id.",
  }),
)
const bits = (description: string, examples?: [number]) =>
  Type.Optional(Type.Integer({ minimum: 0, maximum: 65_536, description, ...(examples && { examples }) }))

const record = {
  ThingID: ofThing,
  ClientCert: pem('The certificate, as PEM.'),
  IssuingCA: pem('The certificate of what signed it.'),
  CAChain: chain('From `IssuingCA` upwards; null where that is a root.'),
  ClientKey: key('The private key (PKCS #8), answered this once and kept nowhere; absent where a CSR was given.'),
  PrivateKeyType: Type.Enum(['rsa', 'ec']),
  Serial: serial,
  Expire: instant('When it ends.'),
  thing_id: ofThing,
  cert: pem('The same as `ClientCert`.'),
  client_cert: pem('The same.'),
  client_key: key('The same as `ClientKey`.'),
  issuing_ca: pem('The same as `IssuingCA`.'),
  ca_chain: chain('The same as `CAChain`.'),
  cert_serial: serial,
  expiration: instant('The same as `Expire`.'),
}
const issuedSchema = Type.Object(record, { title: 'IssuedCertificate', description: 'The certificate.' })

export const issueSchema = {
  ...needsToken,
  operationId: 'issueCertificate',
  summary: 'Issue a certificate for a thing of yours',
  description: `With a CSR for its key, else for a new one. Older clients, which send their token without \`Bearer\`, are answered 200.`,
  body: Type.Object(
    {
      thing_id: thing,
      key_type: Type.Optional(
        Type.String({ maxLength: 8, description: '`rsa` or `ec` (P-256), in any case; else `rsa`.', examples: ['rsa'] }),
      ),
      rsa_bits: bits('2048, 3072 or 4096; else 2048. Ignored for `ec`.', [2048]),
      key_bits: bits('The same.'),
      ttl,
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
    previous_revoked: Type.Boolean({ description: 'false: the certificate before it is valid until its own end.', examples: [false] }),
  },
  { title: 'RenewedCertificate', description: 'The new certificate.' },
)

export const renewSchema = {
  ...needsToken,
  operationId: 'renewCertificate',
  summary: 'Renew a certificate of a thing of yours',
  description: 'Issues another one for the same thing: for the key of a CSR, which may be the same, else for a new key of the same kind.',
  params: Type.Object({ serial }),
  body: Type.Object(
    { ttl, valid, csr, revoke_previous: Type.Boolean({ default: false, description: 'Revoke the certificate before it.' }) },
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
    thing_id: ofThing,
    cert: pem('As PEM.'),
    cert_serial: serial,
    expiration: instant('When it ends.'),
    revocation_time: Type.Optional(Type.String({ description: 'When it was revoked; absent where it was not.' })),
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
  description: 'In the order of their issue, with those that are revoked, and those that have ended within 30 days.',
  params: Type.Object({ thing }),
  querystring: Type.Object(pageQuery),
  response: {
    200: Type.Object({ ...pageAnswer, certs: Type.Array(certificateSchema) }, pageOptions('CertificatesPage')),
    ...errorAnswers('unauthenticated', 'forbidden', 'not_found'),
  },
}

const revoked = {
  200: Type.Object(
    { revocation_time: instant('When the last of them was revoked.'), RevocationTime: instant('The same.') },
    { title: 'Revocation', description: 'They are revoked, and the CRL says so.' },
  ),
  ...errorAnswers('unauthenticated', 'forbidden', 'not_found', 'conflict'),
}

export const revokeSchema = {
  ...needsToken,
  operationId: 'revokeCertificates',
  summary: 'Revoke the certificates of a thing of yours',
  description: 'All of them, or the one with the serial. Not in mode `development` (409).',
  body: Type.Object({ thing_id: thing, serial: Type.Optional(serial) }, { title: 'CertificateRevocation' }),
  response: { ...revoked, ...errorAnswers(...bodyCodes) },
}

export const revokeAllSchema = {
  ...needsToken,
  operationId: 'revokeAllCertificates',
  summary: 'Revoke all certificates of a thing of yours',
  description: 'As DELETE /certs/revoke.',
  params: Type.Object({ thing }),
  response: revoked,
}

export const crlTypes = { der: 'application/pkix-crl', pem: 'application/x-pem-file' } as const

export const crlSchema = {
  tags: ['certificates'],
  security: [],
  operationId: 'getRevokedCertificates',
  summary: 'Get the list of revoked certificates',
  description: 'Without a token. It is current: a revocation that was answered is in it. DER, or PEM where `Accept` prefers that.',
  produces: Object.values(crlTypes),
  response: {
    200: Type.Unsafe<string | Buffer>(Type.String({ description: 'The CRL (RFC 5280 §5).', examples: ['-----BEGIN X509 CRL-----\n…'] })),
    ...errorAnswers('conflict'),
  },
}
