// Stands in for the PKI engine of a Vault or OpenBao server: accepts what the documentation describes, and nothing else.
//
// Each answer cites its section: "PKI" is "PKI secrets engine (API)" (website/content/api-docs/secret/pki), "API" is "HTTP API"
// (website/content/api-docs/index.mdx), "Token" is "Token auth method (API)" (website/content/api-docs/auth/token.mdx), all of Vault; OpenBao's pages of
// the same names say the same.

import { generateKeyPairSync, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { loadX509, nameOf } from '../../../../control-plane/certificates/csr.ts'

export interface VaultRole {
  /** PKI "Create/update role", `max_ttl`, in seconds. */
  readonly maxTtlSeconds: number
  /** The same, `allow_any_name`: false unless set. */
  readonly allowsAnyName: boolean
  /** The same, `use_csr_common_name` and `use_csr_sans`: true unless set. */
  readonly usesCsrNames: boolean
}

export interface VaultStandIn {
  readonly url: string
  readonly token: string
  readonly mount: string
  readonly role: string
  /** PEM. */
  readonly root: string
  /** How it answers: as usual, as sealed (API "HTTP status codes", 503), not at all, or with something that no Vault answers. */
  behaves(as: Behaviour): void
  /** Resolves when that many requests were left without an answer, as `silent`. */
  silence(count: number): Promise<void>
  /** Closes every connection, so that none waits any longer. */
  disconnect(): void
  /** Requests to sign wait from now on until `release`; `arrived` resolves when that many are waiting. */
  hold(count?: number): { readonly arrived: Promise<void>; readonly release: () => void }
  setRole(role: Partial<VaultRole>): void
  /** The token that is valid from now on; by default the previous one. */
  setToken(token?: string): void
  /** Seconds that the token has left, and had in all; 0 and 0 for one without an end, as at first. */
  setTokenLife(ttl: number, creationTtl: number): void
  /** Of certificates that it signed and did not revoke, in lower-case hex. */
  valid(): string[]
  stop(): Promise<void>
}

type Behaviour = 'usual' | 'sealed' | 'silent' | 'strange'
/** Fields of a request; `exclude_cn_from_sans` is a boolean, which is ignored here. */
type Parameters = Readonly<Record<string, string>>

interface Answer {
  readonly status: number
  readonly body: object | Buffer
}

/** API "Error response": "This structure will be returned for any HTTP status greater than or equal to 400". */
const refused = (status: number, message: string): Answer => ({ status, body: { errors: [message] } })
/** PKI "Sign certificate", Sample response, beside `data`. */
const envelope = { lease_id: '', renewable: false, lease_duration: 0, auth: null }

const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' }
const token = 's.that-the-tests-share'
const mount = 'pki/devices'
const roleName = 'things'

/** PKI "Sign certificate", Parameters. */
const signParameters = {
  required: ['csr', 'common_name'],
  optional: [
    'alt_names',
    'other_sans',
    'ip_sans',
    'uri_sans',
    'ttl',
    'format',
    'exclude_cn_from_sans',
    'not_after',
    'remove_roots_from_chain',
    'user_ids',
  ],
}
/** PKI "Revoke certificate", Parameters: "either `serial_number` or `certificate` (but not both) must be specified". */
const revokeParameters = { required: ['serial_number'], optional: [] }

export async function startVaultStandIn(): Promise<VaultStandIn> {
  const x509 = await loadX509()
  const pair = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const keys = {
    privateKey: pair.privateKey.toCryptoKey(algorithm, false, ['sign']),
    publicKey: pair.publicKey.toCryptoKey(algorithm, true, ['verify']),
  }
  const issuer = nameOf(x509, 'Stand-in Root')
  const authorityKey = await x509.AuthorityKeyIdentifierExtension.create(keys.publicKey)
  const [notBefore, notAfter] = [new Date(Date.now() - 30_000), new Date(Date.now() + 10 * 365 * 86_400_000)]
  const root = await x509.X509CertificateGenerator.createSelfSigned({
    name: issuer,
    notBefore,
    notAfter,
    keys,
    signingAlgorithm: algorithm,
    extensions: [
      new x509.BasicConstraintsExtension(true, 0, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign, true),
      await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
    ],
  })
  const usualRole: VaultRole = { maxTtlSeconds: 8_760 * 3600, allowsAnyName: true, usesCsrNames: false }
  let role = usualRole
  let validToken = token
  let tokenLife = { ttl: 0, creation_ttl: 0 }
  let behaviour: Behaviour = 'usual'
  let unanswered = 0
  let onUnanswered = (): void => undefined
  let held = (): Promise<void> => Promise.resolve()
  let crlNumber = 1_000
  /** By serial, when it was revoked. */
  const issued = new Map<string, Date | undefined>()

  async function sign(parameters: Parameters, name: string): Promise<Answer> {
    if (name !== roleName) return refused(400, `unknown role: ${name}`)
    await held()
    const fault = parameterFault(parameters, signParameters)
    if (fault !== undefined) return refused(400, fault)
    const request = new x509.Pkcs10CertificateRequest(parameters['csr']!)
    if (!(await request.verify())) return refused(400, 'request signature invalid')
    const seconds = Number(/^(\d+)s$/.exec(parameters['ttl'] ?? '3600s')?.[1])
    if (!(seconds > 0)) return refused(400, `error parsing ttl: ${parameters['ttl']!}`)
    // PKI "Sign certificate", `common_name`: "If the CN is allowed by role policy, it will be issued".
    if (!role.allowsAnyName) return refused(400, `common name ${parameters['common_name']!} not allowed by this role`)
    // The same, `ttl`: "Cannot be greater than the role's `max_ttl` value". Vault 1.14.0 warns, and signs for as long as that.
    const lifetimeMs = Math.min(seconds, role.maxTtlSeconds) * 1000
    const serial = randomBytes(20).fill(0x39, 0, 1)
    const ownName = request.subjectName.getField('CN')[0]
    const ownSans = request.getExtension('2.5.29.17')
    const certificate = await x509.X509CertificateGenerator.create({
      serialNumber: serial.toString('hex'),
      subject: nameOf(x509, (role.usesCsrNames ? ownName : undefined) ?? parameters['common_name']!),
      issuer,
      notBefore,
      notAfter: new Date(Date.now() + lifetimeMs),
      publicKey: request.publicKey,
      signingKey: keys.privateKey,
      signingAlgorithm: algorithm,
      extensions: [
        new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature | x509.KeyUsageFlags.keyAgreement, true),
        new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.serverAuth, x509.ExtendedKeyUsage.clientAuth]),
        await x509.SubjectKeyIdentifierExtension.create(request.publicKey),
        authorityKey,
        ...(role.usesCsrNames && ownSans !== null ? [ownSans] : []),
      ],
    })
    issued.set(serial.toString('hex'), undefined)
    const data = {
      expiration: String(Math.floor(certificate.notAfter.getTime() / 1000)),
      certificate: certificate.toString('pem'),
      issuing_ca: root.toString('pem'),
      ca_chain: [root.toString('pem')],
      serial_number: serial.toString('hex').match(/../g)!.join(':'),
    }
    return { status: 200, body: { ...envelope, data } }
  }

  function revoke(parameters: Parameters): Answer {
    const fault = parameterFault(parameters, revokeParameters)
    if (fault !== undefined) return refused(400, fault)
    const written = parameters['serial_number']!
    // "in hyphen-separated or colon-separated hexadecimal".
    if (!/^[0-9a-f]{2}([:-][0-9a-f]{2})*$/.test(written)) return refused(400, `invalid serial number: ${written}`)
    const serial = written.replace(/[:-]/g, '')
    if (!issued.has(serial)) return refused(400, `certificate with serial ${written} not found.`)
    const revokedAt = issued.get(serial) ?? new Date()
    issued.set(serial, revokedAt)
    return { status: 200, body: { ...envelope, data: { revocation_time: Math.floor(revokedAt.getTime() / 1000) } } }
  }

  /** PKI "Read issuer CRL": `GET /pki/crl` is DER; "These are unauthenticated endpoints". "A successful revocation rotates the CRL". */
  async function crl(): Promise<Answer> {
    const entries = [...issued].flatMap(([serialNumber, revocationDate]) =>
      revocationDate === undefined ? [] : [{ serialNumber, revocationDate }],
    )
    const number = new x509.Extension('2.5.29.20', false, Buffer.from([2, 2, ++crlNumber >> 8, crlNumber & 0xff]))
    const list = await x509.X509CrlGenerator.create({
      issuer,
      thisUpdate: new Date(),
      nextUpdate: new Date(Date.now() + 72 * 3_600_000),
      entries,
      signingAlgorithm: algorithm,
      signingKey: keys.privateKey,
      extensions: [authorityKey, number],
    })
    return { status: 200, body: Buffer.from(list.rawData) }
  }

  async function answer(request: IncomingMessage): Promise<Answer> {
    if (behaviour === 'sealed') return refused(503, 'Vault is sealed')
    const path = request.url!
    if (path === `/v1/${mount}/crl`) return request.method === 'GET' ? crl() : refused(405, 'unsupported operation')
    // API "HTTP status codes": 403 "your authentication details are either incorrect, you don't have access to this feature".
    if (request.headers['x-vault-token'] !== validToken) return refused(403, 'permission denied')
    // Token "Lookup a token (self)".
    if (path === '/v1/auth/token/lookup-self')
      return { status: 200, body: { ...envelope, data: { id: validToken, renewable: true, ...tokenLife } } }
    const [, name] = new RegExp(`^/v1/${mount}/sign/([^/]+)$`).exec(path) ?? []
    if (name === undefined && path !== `/v1/${mount}/revoke`) return refused(404, `no handler for route ${JSON.stringify(path)}`)
    if (request.method !== 'POST') return refused(405, 'unsupported operation')
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    const parameters = JSON.parse(Buffer.concat(chunks).toString()) as Parameters
    return name === undefined ? revoke(parameters) : sign(parameters, name)
  }

  const server = createServer((request, response) => {
    if (behaviour === 'silent') {
      unanswered++
      return onUnanswered()
    }
    if (behaviour === 'strange') response.end('{"data": {"certificate": "none"}}')
    else
      void answer(request).then(({ status, body }) => {
        const isJson = !Buffer.isBuffer(body)
        response
          .writeHead(status, { 'content-type': isJson ? 'application/json' : 'application/pkix-crl' })
          .end(isJson ? JSON.stringify(body) : body)
      })
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    token,
    mount,
    role: roleName,
    root: root.toString('pem'),
    behaves: as => void (behaviour = as),
    silence: count =>
      new Promise(resolve => {
        onUnanswered = () => void (unanswered >= count && resolve())
        onUnanswered()
      }),
    setToken: (renewed = token) => void (validToken = renewed),
    setTokenLife: (ttl, creationTtl) => void (tokenLife = { ttl, creation_ttl: creationTtl }),
    hold(count = 1) {
      const [all, released] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
      let there = 0
      held = () => {
        if (++there === count) all.resolve()
        return released.promise
      }
      return { arrived: all.promise, release: released.resolve }
    },
    setRole: changed => void (role = { ...usualRole, ...changed }),
    valid: () => [...issued].flatMap(([serial, revokedAt]) => (revokedAt === undefined ? [serial] : [])),
    disconnect: () => server.closeAllConnections(),
    async stop() {
      server.closeAllConnections()
      await once(server.close(), 'close')
    },
  }
}

function parameterFault(
  given: Parameters,
  { required, optional }: { readonly required: readonly string[]; readonly optional: readonly string[] },
) {
  const missing = required.find(name => typeof given[name] !== 'string' || given[name] === '')
  if (missing !== undefined) return `the "${missing}" field was empty`
  const unknown = Object.keys(given).find(name => !required.includes(name) && !optional.includes(name))
  return unknown === undefined ? undefined : `the documentation has no parameter ${unknown}`
}
