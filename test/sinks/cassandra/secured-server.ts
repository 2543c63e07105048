// A Cassandra that asks for a role, knows permissions, and takes connections with and without TLS.

import { execFileSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { cachePath } from '../../servers/cache.ts'
import { cassandraYaml, javaFlags, logbackXml } from '../../servers/cassandra-settings.ts'
import { freePort } from '../../servers/free-port.ts'
import { keep } from '../../servers/keeper.ts'

export interface SecuredCassandra {
  readonly contactPoint: string
  /** PEM of the certificate, which is signed by itself and names 127.0.0.1. */
  readonly certificate: string
  stop(): Promise<void>
}

/** The libraries are installed: a suite over the shared server has been asked for. */
const libraries = (): string => join(cachePath('cassandra', '5.0.9'), 'lib')

export async function startSecuredCassandra(): Promise<SecuredCassandra> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-cassandra-'))
  const places = { folder, port: await freePort(), storagePort: await freePort() }
  for (const name of ['conf', 'tmp']) await mkdir(join(folder, name))
  const certificate = await makeCertificate(folder)
  const yaml = cassandraYaml(places)
    .replaceAll('AllowAllAuthenticator', 'PasswordAuthenticator')
    .replaceAll('AllowAllAuthorizer', 'CassandraAuthorizer')
  const secured = `${yaml}role_manager: CassandraRoleManager
permissions_validity: 100ms
roles_validity: 100ms
client_encryption_options:
  enabled: true
  optional: true
  keystore: ${join(folder, 'node.pem')}
  ssl_context_factory:
    class_name: org.apache.cassandra.security.PEMBasedSslContextFactory
`
  await writeFile(join(folder, 'conf', 'cassandra.yaml'), secured)
  await writeFile(join(folder, 'conf', 'logback.xml'), logbackXml)
  const agent = readdirSync(libraries()).find(name => /^jamm-.*\.jar$/.test(name))!
  const classPath = `${join(folder, 'conf')}:${join(libraries(), '*')}`
  const node = await keep(
    ['java', ...javaFlags(folder, join(libraries(), agent)), '-cp', classPath, 'org.apache.cassandra.service.CassandraDaemon'],
    {
      folder,
      isReady: line => line.includes("Created default superuser role 'cassandra'"),
      startMsMax: 120_000,
    },
  )
  return {
    contactPoint: `127.0.0.1:${places.port}`,
    certificate,
    async stop() {
      await node.end('KILL')
      await rm(folder, { recursive: true, force: true })
    },
  }
}

async function makeCertificate(folder: string): Promise<string> {
  const [key, certificate] = [join(folder, 'key.pem'), join(folder, 'certificate.pem')]
  const names = ['-subj', '/CN=node', '-addext', 'subjectAltName=IP:127.0.0.1,DNS:node.example']
  execFileSync('openssl', ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2', ...names, '-keyout', key, '-out', certificate], {
    stdio: 'pipe',
  })
  const pem = await readFile(certificate, 'utf8')
  await writeFile(join(folder, 'node.pem'), `${await readFile(key, 'utf8')}${pem}`)
  return pem
}
