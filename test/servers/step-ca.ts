// Starts a step-ca server for the tests: an online authority below a root, which revokes certificates and serves a CRL.

import { generateKeyPairSync, type JsonWebKey, type KeyObject } from 'node:crypto'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { loadX509, nameOf } from '../../control-plane/certificates/csr.ts'
import { describeWithServer } from './describe-with.ts'
import { freePort } from './process/free-port.ts'
import { keep } from './process/keeper.ts'
import { goServer, type KeptServer, startKept } from './process/kept-server.ts'

export const stepCaServer = goServer('step-ca', {
  module: 'github.com/smallstep/certificates',
  version: 'v0.30.2',
  main: './cmd/step-ca',
})

export interface StepCa extends KeptServer {
  /** `https://127.0.0.1:<port>` */
  readonly url: string
  /** Path of the root's certificate, which its own HTTPS certificate also leads to. */
  readonly rootFile: string
  /** PEM. */
  readonly root: string
  /** The root's empty CRL as DER; the server returns only its own. */
  readonly rootCrl: Buffer
  readonly provisioner: string
  /** Its private key. */
  readonly key: JsonWebKey
}

/** A `describe` with a separate server; if it cannot be built, like `describeWithMongo`. */
export function describeWithStepCa(name: string, suite: (stepCa: StepCa) => void): void {
  describeWithServer(name, stepCaServer.missing(), startStepCa, suite)
}

/** Starts a server on loopback, on a free port. */
async function startStepCa(): Promise<StepCa> {
  const folder = await stepCaServer.folder()
  const url = `https://127.0.0.1:${await freePort()}`
  const { provisioner, key, root, rootCrl } = await makeData(folder, url)
  const launch = () =>
    keep([stepCaServer.program(), join(folder, 'ca.json')], {
      folder,
      env: { STEPPATH: folder, HOME: folder },
      isReady: line => line.includes('Serving HTTPS on'),
    })
  const server = await startKept(folder, launch)
  return {
    url,
    rootFile: join(folder, 'root.crt'),
    root,
    rootCrl,
    provisioner,
    key,
    ...server,
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
  // With any CRL, a server checks the whole chain.
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
  // OpenSSL accepts its CRL only for certificates that name the same address, so the template names it.
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
