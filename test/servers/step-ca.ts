// Starts a step-ca server for the tests: an online authority with a root above it, which revokes, and serves a CRL.

import { generateKeyPairSync, type JsonWebKey, type KeyObject } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll } from 'vitest'
import { loadX509, nameOf } from '../../control-plane/certificates/csr.ts'
import { cachePath, makeOnce } from './cache.ts'
import { describeUnlessMissing, whenRunning } from './describe-with.ts'
import { freePort } from './free-port.ts'
import { buildGoProgram, missingGo } from './go-install.ts'
import { keep } from './keeper.ts'

const version = 'v0.30.2'
const program = (): string => cachePath('step-ca', version, 'step-ca')

export interface StepCa {
  /** `https://127.0.0.1:<port>` */
  readonly url: string
  /** Path of the root's certificate, which its own HTTPS certificate leads to, too. */
  readonly rootFile: string
  /** PEM. */
  readonly root: string
  /** DER of the root's CRL, which names nothing: the server gives only its own. */
  readonly rootCrl: Buffer
  readonly provisioner: string
  /** Its private key. */
  readonly key: JsonWebKey
  /** Up again on the same port and data. */
  restart(): Promise<void>
  /** Ends it as if it had crashed, until `restart`. */
  kill(): Promise<void>
  /** Connections stay open, and nothing is answered. */
  pause(): void
  resume(): void
  /** Ends it and removes its data. It ends too when this process dies, however it dies. */
  stop(): Promise<void>
}

/** Why there is no such server, with what would help. */
export function missingStepCa(): string | undefined {
  return existsSync(program()) ? undefined : missingGo()
}

/** A `describe` over a server of its own; where none can be built, as `describeWithMongo`. */
export function describeWithStepCa(name: string, suite: (stepCa: StepCa) => void): void {
  describeUnlessMissing(name, missingStepCa(), () => {
    let server: StepCa | undefined
    beforeAll(async () => {
      server = await startStepCa()
    }, 600_000)
    afterAll(() => server?.stop(), 30_000)
    suite(whenRunning(() => server))
  })
}

/** Resolves when it is built: a minute or two the first time. */
export function installStepCa(): Promise<void> {
  return makeOnce(program(), draft =>
    buildGoProgram(draft, {
      module: 'github.com/smallstep/certificates',
      version,
      main: './cmd/step-ca',
      env: { CGO_ENABLED: '0' },
      flags: ['-ldflags', '-s -w'],
    }),
  )
}

/** Starts a server on loopback, on a port that was free. */
export async function startStepCa(): Promise<StepCa> {
  const missing = missingStepCa()
  if (missing !== undefined) throw new Error(missing)
  await installStepCa()
  const folder = await mkdtemp(join(tmpdir(), 'sluice-step-ca-'))
  const url = `https://127.0.0.1:${await freePort()}`
  const { provisioner, key, root, rootCrl } = await makeData(folder, url)
  const launch = () =>
    keep([program(), join(folder, 'ca.json')], {
      folder,
      env: { STEPPATH: folder, HOME: folder },
      isReady: line => line.includes('Serving HTTPS on'),
    })
  let server = await launch()
  return {
    url,
    rootFile: join(folder, 'root.crt'),
    root,
    rootCrl,
    provisioner,
    key,
    restart: async () => {
      await server.end('TERM')
      server = await launch()
    },
    kill: () => server.end('KILL'),
    pause: () => server.signal('STOP'),
    resume: () => server.signal('CONT'),
    stop: async () => {
      await server.end('KILL')
      await rm(folder, { recursive: true, force: true })
    },
  }
}

const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' }

async function makeData(folder: string, url: string) {
  const x509 = await loadX509()
  const pair = () => generateKeyPairSync('ec', { namedCurve: algorithm.namedCurve })
  const [rootPair, ownPair, provisionerPair] = [pair(), pair(), pair()]
  const signingKey = rootPair.privateKey.toCryptoKey(algorithm, false, ['sign'])
  const publicOf = ({ publicKey }: { publicKey: KeyObject }) => publicKey.toCryptoKey(algorithm, true, ['verify'])
  const [notBefore, notAfter] = [new Date(Date.now() - 60_000), new Date(Date.now() + 10 * 365 * 86_400_000)]
  const authorityKey = await x509.AuthorityKeyIdentifierExtension.create(publicOf(rootPair))
  const authority = async (name: string, of: { publicKey: KeyObject }, pathLength: number) =>
    x509.X509CertificateGenerator.create({
      subject: nameOf(x509, name),
      issuer: nameOf(x509, 'Test Root'),
      notBefore,
      notAfter,
      publicKey: publicOf(of),
      signingKey,
      signingAlgorithm: algorithm,
      extensions: [
        new x509.BasicConstraintsExtension(true, pathLength, true),
        new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign, true),
        await x509.SubjectKeyIdentifierExtension.create(publicOf(of)),
        authorityKey,
      ],
    })
  const root = (await authority('Test Root', rootPair, 1)).toString('pem')
  const own = (await authority('Test Intermediate', ownPair, 0)).toString('pem')
  // A server that is given any CRL checks the whole chain.
  const rootCrl = await x509.X509CrlGenerator.create({
    issuer: nameOf(x509, 'Test Root'),
    thisUpdate: notBefore,
    nextUpdate: notAfter,
    signingAlgorithm: algorithm,
    signingKey,
    extensions: [authorityKey],
  })

  const provisioner = 'test'
  const ids = { use: 'sig', kid: 'test', alg: 'ES256' }
  const key = { ...provisionerPair.privateKey.export({ format: 'jwk' }), ...ids }
  const crlUrl = `${url}/1.0/crl`
  // Its CRL is for certificates that name the same address, and OpenSSL refuses every other: so the template names it.
  const template = `{"subject": {{ toJson .Subject }}, "sans": {{ toJson .SANs }}, "keyUsage": ["digitalSignature"],
    "extKeyUsage": ["serverAuth", "clientAuth"], "crlDistributionPoints": ["${crlUrl}"]}`
  const settings = {
    root: join(folder, 'root.crt'),
    crt: join(folder, 'own.crt'),
    key: join(folder, 'own.key'),
    address: new URL(url).host,
    dnsNames: ['127.0.0.1', 'localhost'],
    logger: { format: 'text' },
    db: { type: 'badgerv2', dataSource: join(folder, 'db') },
    crl: { enabled: true, generateOnRevoke: true, cacheDuration: '24h', idpURL: crlUrl },
    authority: {
      provisioners: [
        {
          type: 'JWK',
          name: provisioner,
          key: { ...provisionerPair.publicKey.export({ format: 'jwk' }), ...ids },
          claims: { minTLSCertDuration: '1m', maxTLSCertDuration: '8760h', defaultTLSCertDuration: '24h' },
          options: { x509: { template } },
        },
      ],
    },
    tls: { minVersion: 1.2, maxVersion: 1.3 },
  }
  await mkdir(folder, { recursive: true })
  await writeFile(settings.root, root)
  await writeFile(settings.crt, own)
  await writeFile(settings.key, ownPair.privateKey.export({ format: 'pem', type: 'pkcs8' }), { mode: 0o600 })
  await writeFile(join(folder, 'ca.json'), JSON.stringify(settings))
  return { provisioner, key, root, rootCrl: Buffer.from(rootCrl.rawData) }
}
