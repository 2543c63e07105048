// Runs one Kafka process on a data folder.

import { randomBytes } from 'node:crypto'
import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { makeOnce } from '../install/cache.ts'
import { javaVersion } from '../install/java.ts'
import { installKafka, type KafkaProgram } from '../install/kafka.ts'
import { freePort } from '../process/free-port.ts'
import { type Kept, keep } from '../process/keeper.ts'
import { type BrokerPorts, brokerSettings } from './settings.ts'

export interface BrokerTuning {
  /** `start`, the default, is for tests: a start takes 0.8 s. `load` is for measurements: a start takes 2 s, with a heap of 1 GiB. */
  tuning?: 'start' | 'load'
  /** Further lines of server.properties: `{ 'auto.create.topics.enable': 'true' }`. */
  settings?: Readonly<Record<string, string>>
}

/** With Java's archive of loaded classes, for a fast start. */
export type StartableKafka = KafkaProgram & { readonly archive: string }

const quickStart = ['-Xmx256m', '-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1']
const longRun = ['-Xms1g', '-Xmx1g', '-XX:+UseG1GC']

/** Resolves when Kafka is installed and can be started: 15 s the first time. */
export async function startableKafka(): Promise<StartableKafka> {
  const program = await installKafka()
  const archive = `${program.folder}-java-${javaVersion() ?? 'unknown'}.jsa`
  await makeOnce(archive, draft => makeArchive(program, draft))
  return { ...program, archive }
}

/** Stores the classes that Java loads in a start, so that the next ones take 0.7 s instead of 1.8 s, and half as much CPU. */
async function makeArchive(program: KafkaProgram, draft: string): Promise<void> {
  const folder = await freshFolder(program)
  try {
    const broker = await launch(program, folder, await freePorts(), {}, [...quickStart, `-XX:ArchiveClassesAtExit=${draft}`])
    await broker.end('TERM')
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** A folder for a new broker, in its own cluster. */
export async function freshFolder(program: KafkaProgram): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-kafka-'))
  await cp(program.template, join(folder, 'data'), { recursive: true })
  const properties = join(folder, 'data', 'meta.properties')
  const cluster = randomBytes(16).toString('base64url')
  await writeFile(properties, (await readFile(properties, 'utf8')).replace(/^cluster\.id=.*$/m, `cluster.id=${cluster}`))
  return folder
}

/** Ports that are currently free; without a proxy. */
export async function freePorts(): Promise<BrokerPorts> {
  const ports = new Set<number>()
  while (ports.size < 6) ports.add(await freePort())
  const [plain, tls, sasl, saslTls, controller, proxied] = [...ports] as [number, number, number, number, number, number]
  return { plain, tls, sasl, saslTls, controller, proxied, proxy: proxied }
}

/** Resolves when clients can connect. The folder is from `freshFolder`, with the data of earlier brokers. */
export async function launchBroker(
  program: StartableKafka,
  folder: string,
  ports: BrokerPorts,
  { tuning = 'start', settings = {} }: BrokerTuning,
): Promise<Kept> {
  // Java ignores an archive that does not fit, as with another garbage collector.
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
    // The last line of its start, when the controller has accepted the broker and the ports are open.
    isReady: line => line.includes('Kafka Server started'),
  })
}
