// Runs one process of Kafka on a data folder.

import { randomBytes } from 'node:crypto'
import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { makeOnce } from './cache.ts'
import { freePort } from './free-port.ts'
import { javaVersion } from './java-install.ts'
import { installKafka, type KafkaProgram } from './kafka-install.ts'
import { type BrokerPorts, brokerSettings } from './kafka-settings.ts'
import { type Kept, keep } from './keeper.ts'

export interface BrokerTuning {
  /** `start`, the default, is for tests: a start of 0.8 s. `load` is for measurements: a start of 2 s, and a heap of 1 GiB. */
  tuning?: 'start' | 'load'
  /** More of server.properties: `{ 'auto.create.topics.enable': 'true' }`. */
  settings?: Readonly<Record<string, string>>
}

/** With classes as Java keeps them in memory, for a quick start. */
export type StartableKafka = KafkaProgram & { readonly archive: string }

const quickStart = ['-Xmx256m', '-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1']
const longRun = ['-Xms1g', '-Xmx1g', '-XX:+UseG1GC']

/** Resolves when Kafka is installed and ready to be started: 15 s the first time. */
export async function startableKafka(): Promise<StartableKafka> {
  const program = await installKafka()
  const archive = `${program.folder}-java-${javaVersion() ?? 'unknown'}.jsa`
  await makeOnce(archive, draft => makeArchive(program, draft))
  return { ...program, archive }
}

/** What Java learns in a start it keeps in a file, with which the next ones take 0.7 s and not 1.8 s, and half as much of a core. */
async function makeArchive(program: KafkaProgram, draft: string): Promise<void> {
  const folder = await freshFolder(program)
  try {
    const broker = await launch(program, folder, await freePorts(), {}, [...quickStart, `-XX:ArchiveClassesAtExit=${draft}`])
    await broker.end('TERM')
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** A folder for a broker that has never run, of a cluster of its own. */
export async function freshFolder(program: KafkaProgram): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-kafka-'))
  await cp(program.template, join(folder, 'data'), { recursive: true })
  const properties = join(folder, 'data', 'meta.properties')
  const cluster = randomBytes(16).toString('base64url')
  await writeFile(properties, (await readFile(properties, 'utf8')).replace(/^cluster\.id=.*$/m, `cluster.id=${cluster}`))
  return folder
}

/** Ports that nobody listened on just now; without a proxy. */
export async function freePorts(): Promise<BrokerPorts> {
  const ports = new Set<number>()
  while (ports.size < 6) ports.add(await freePort())
  const [plain, tls, sasl, saslTls, controller, proxied] = [...ports] as [number, number, number, number, number, number]
  return { plain, tls, sasl, saslTls, controller, proxied, proxy: proxied }
}

/** Resolves when clients may come. The folder is that of `freshFolder`, with whatever brokers did in it since. */
export async function launchBroker(
  program: StartableKafka,
  folder: string,
  ports: BrokerPorts,
  { tuning = 'start', settings = {} }: BrokerTuning,
): Promise<Kept> {
  // Java leaves the archive aside where it does not fit, as it does under another collector.
  return launch(
    program,
    folder,
    ports,
    settings,
    tuning === 'start' ? [...quickStart, `-XX:SharedArchiveFile=${program.archive}`] : longRun,
  )
}

async function launch(
  program: KafkaProgram,
  folder: string,
  ports: BrokerPorts,
  settings: Readonly<Record<string, string>>,
  flags: readonly string[],
): Promise<Kept> {
  const properties = join(folder, 'server.properties')
  await writeFile(properties, brokerSettings({ data: join(folder, 'data'), ports, identity: program.identity, settings }))
  const logging = ['-Dorg.slf4j.simpleLogger.defaultLogLevel=warn', '-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info']
  return keep(['java', ...flags, '-XX:+ExitOnOutOfMemoryError', ...logging, '-cp', program.classPath, 'kafka.Kafka', properties], {
    folder,
    // The last line of its start, when the controller has let the broker in and the ports are open.
    isReady: line => line.includes('Kafka Server started'),
  })
}
