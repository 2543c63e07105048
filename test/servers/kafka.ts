// Starts real Kafka brokers for the tests: one shared by the suites of a run, and a separate one for a suite that damages it.

import { readFile, rm } from 'node:fs/promises'
import { describeWithServer, describeWithShared } from './describe-with.ts'
import { missingKafka } from './install/kafka.ts'
import { accessTo, type KafkaAccess, type KafkaAddress } from './kafka/access.ts'
import { type BrokerTuning, freePorts, freshFolder, launchBroker, type StartableKafka, startableKafka } from './kafka/broker.ts'
import { type BrokerPorts, credentials } from './kafka/settings.ts'
import type { Kept } from './process/keeper.ts'
import { openProxy, type Proxy } from './process/proxy.ts'
import { requestServer } from './server-request.ts'

export type { KafkaAccess, TopicOptions } from './kafka/access.ts'

/** A separate broker, to be killed, frozen and restarted. */
export interface Kafka extends KafkaAccess {
  /** The port in `brokers`. */
  readonly port: number
  /** Of the Java process; changes with each restart. */
  readonly pid: number
  /** False after `kill`, and if it ended by itself. */
  readonly alive: boolean
  /** Its data and other files; removed by `stop`. */
  readonly folder: string
  /** The addresses through `proxy`, not encrypted. The broker gives clients of this listener only the proxy's address. */
  readonly proxied: readonly string[]
  readonly proxy: Proxy
  /** Restarts it on the same ports and data, after a clean stop if it runs: 1 s, and 3 s after `kill`. */
  restart(): Promise<void>
  /** SIGKILL. Acknowledged messages are there after `restart`. */
  kill(): Promise<void>
  /** SIGSTOP: connections stay open, and nothing is answered. */
  pause(): void
  resume(): void
  /** Ends it and removes its data. It also ends when this process dies in any way. */
  stop(): Promise<void>
}

/**
 * A `describe` with the broker shared by all suites of a run: the first one starts it, and none damages it. Without Java the suite is skipped,
 * with the command that helps; with CI=true that is a failure.
 *
 * @param suite gets the broker, which runs during tests and hooks
 */
export function describeWithKafka(name: string, suite: (kafka: KafkaAccess) => void): void {
  describeWithShared(name, missingKafka(), async () => accessTo((await requestServer('kafka')) as KafkaAddress), suite)
}

/** Like `describeWithKafka`, with a separate broker, which may be killed and frozen: 1 s of a core and 200 MB. */
export function describeWithOwnKafka(name: string, suite: (kafka: Kafka) => void, tuning: BrokerTuning = {}): void {
  describeWithServer(name, missingKafka(), () => startKafka(tuning), suite)
}

/** Starts a broker on loopback, on free ports, with its own data folder. */
export async function startKafka(tuning: BrokerTuning = {}): Promise<Kafka> {
  const missing = missingKafka()
  if (missing !== undefined) throw new Error(missing)
  const program = await startableKafka()
  const folder = await freshFolder(program)
  const { ports, proxy, first } = await begin(program, folder, tuning).catch(async (error: unknown) => {
    await rm(folder, { recursive: true, force: true })
    throw error
  })
  let process = first
  const access = accessTo(await addressOf(program, ports))
  return {
    ...access,
    port: ports.plain,
    get pid() {
      return process.pid
    },
    get alive() {
      return process.alive
    },
    folder,
    proxied: [`127.0.0.1:${proxy.port}`],
    proxy,
    restart: async () => {
      await process.end('TERM')
      process = await launchBroker(program, folder, ports, tuning)
    },
    kill: () => process.end('KILL'),
    pause: () => process.signal('STOP'),
    resume: () => process.signal('CONT'),
    stop: async () => {
      await Promise.all([process.end('KILL'), proxy.close()])
      await rm(folder, { recursive: true, force: true })
    },
  }
}

async function begin(
  program: StartableKafka,
  folder: string,
  tuning: BrokerTuning,
): Promise<{ ports: BrokerPorts; proxy: Proxy; first: Kept }> {
  const free = await freePorts()
  const proxy = await openProxy({ port: free.proxied })
  const ports = { ...free, proxy: proxy.port }
  try {
    return { ports, proxy, first: await launchBroker(program, folder, ports, tuning) }
  } catch (error) {
    await proxy.close()
    throw error
  }
}

async function addressOf(program: StartableKafka, ports: BrokerPorts): Promise<KafkaAddress> {
  const at = (port: number): string[] => [`127.0.0.1:${port}`]
  const certificate = await readFile(program.certificate, 'utf8')
  return {
    brokers: at(ports.plain),
    secured: { tls: at(ports.tls), sasl: at(ports.sasl), saslTls: at(ports.saslTls), certificate, ...credentials },
    classPath: program.classPath,
  }
}
