// Installs Apache Kafka once, from Maven's central repository, with files that make each start of a broker faster.

import { execFile } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { brokerSettings, credentials } from '../kafka/settings.ts'
import { cachePath, makeOnce } from './cache.ts'
import { missingJava, runMaven } from './java.ts'

const run = promisify(execFile)

const version = '4.3.1'
const home = (): string => cachePath('kafka', version)

export interface KafkaProgram {
  /** The whole installation, in the cache. */
  readonly folder: string
  /** Every library of Kafka, in a fixed order: an archive of classes is valid for one class path only. */
  readonly classPath: string
  /** The data folder of a broker that has never run. */
  readonly template: string
  /** Private key and certificate of the encrypted listeners, for 127.0.0.1 and localhost. */
  readonly identity: string
  /** The certificate alone, which clients trust. */
  readonly certificate: string
}

/** Installs Java and Maven if they are missing. Returns why Kafka is not available, with the command that would help. */
export function missingKafka(): string | undefined {
  return missingJava(!existsSync(home()))
}

/** Resolves when Kafka is installed: 10 s the first time. */
export async function installKafka(): Promise<KafkaProgram> {
  await makeOnce(home(), install)
  return programIn(home())
}

function programIn(folder: string): KafkaProgram {
  const libraries = join(folder, 'lib')
  return {
    folder,
    classPath: readdirSync(libraries)
      .sort()
      .map(name => join(libraries, name))
      .join(':'),
    template: join(folder, 'template'),
    identity: join(folder, 'identity.pem'),
    certificate: join(folder, 'certificate.pem'),
  }
}

async function install(folder: string): Promise<void> {
  const libraries = ['kafka_2.13', 'kafka-tools'].map(name => ({ group: 'org.apache.kafka', name, version }))
  await runMaven(
    folder,
    [...libraries, { group: 'org.slf4j', name: 'slf4j-simple', version: '1.7.36' }],
    ['dependency:copy-dependencies', '-DincludeScope=runtime', `-DoutputDirectory=${join(folder, 'lib')}`],
  )
  await makeIdentity(folder)
  await makeTemplate(programIn(folder))
}

/** A key with a self-signed certificate, which is the only one that the tests' clients trust. */
async function makeIdentity(folder: string): Promise<void> {
  const [key, certificate] = [join(folder, 'key.pem'), join(folder, 'certificate.pem')]
  const kind = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-keyout', key]
  const subject = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=IP:127.0.0.1,DNS:localhost']
  await run('openssl', ['req', '-x509', ...kind, '-out', certificate, '-days', '3650', ...subject])
  await run('sh', ['-c', 'cat "$1" "$2" > "$3"', 'sh', key, certificate, join(folder, 'identity.pem')])
}

/** Formatting takes a second of Java, so it is done once. Its ports do not matter. */
async function makeTemplate(program: KafkaProgram): Promise<void> {
  const settings = join(program.folder, 'format.properties')
  const ports = { plain: 1, tls: 2, sasl: 3, saslTls: 4, controller: 5, proxied: 6, proxy: 6 }
  await writeFile(settings, brokerSettings({ data: program.template, ports, identity: program.identity }))
  const { username, password } = credentials
  const users = ['SCRAM-SHA-256', 'SCRAM-SHA-512'].flatMap(name => ['--add-scram', `${name}=[name=${username},password=${password}]`])
  const format = ['format', '--cluster-id', 'c2x1aWNlLXRlc3RzLTAwMA', '--config', settings, ...users]
  await run('java', ['-XX:TieredStopAtLevel=1', '-cp', program.classPath, 'kafka.tools.StorageTool', ...format])
}
