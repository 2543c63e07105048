// A Cassandra that asks for a role, knows permissions, and takes connections with and without TLS.

import { execFileSync } from 'node:child_process'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type ConfiguredCassandra, startConfiguredCassandra } from './configured-server.ts'

export interface SecuredCassandra extends ConfiguredCassandra {
  /** PEM of the certificate, which is signed by itself and names 127.0.0.1. */
  readonly certificate: string
}

export async function startSecuredCassandra(): Promise<SecuredCassandra> {
  let certificate = ''
  const server = await startConfiguredCassandra(async (yaml, folder) => {
    certificate = await makeCertificate(folder)
    const secured = yaml
      .replaceAll('AllowAllAuthenticator', 'PasswordAuthenticator')
      .replaceAll('AllowAllAuthorizer', 'CassandraAuthorizer')
    return `${secured}role_manager: CassandraRoleManager
permissions_validity: 100ms
roles_validity: 100ms
client_encryption_options:
  enabled: true
  optional: true
  keystore: ${join(folder, 'node.pem')}
  ssl_context_factory:
    class_name: org.apache.cassandra.security.PEMBasedSslContextFactory
`
  }, "Created default superuser role 'cassandra'")
  return { ...server, certificate }
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
