// Starts real Kafka brokers for the tests: one that the suites of a run share, and one of its own for a suite that harms it.

import { readFile, rm } from 'node:fs/promises'
import { afterAll, beforeAll } from 'vitest'
import { describeUnlessMissing, whenRunning } from './describe-with.ts'
import { accessTo, type KafkaAccess, type KafkaAddress } from './kafka-access.ts'
import { type BrokerTuning, freePorts, freshFolder, launchBroker, type StartableKafka, startableKafka } from './kafka-broker.ts'
import { missingKafka } from './kafka-install.ts'
import { type BrokerPorts, credentials } from './kafka-settings.ts'
import type { Kept } from './keeper.ts'
import { openProxy, type Proxy } from './proxy.ts'
import { requestServer } from './server-request.ts'

export type { KafkaAccess, TopicOptions } from './kafka-access.ts'

/** A broker of one's own, to be killed, halted and started again. */
export interface Kafka extends KafkaAccess {
  /** Of `brokers`. */
  readonly port: number
  /** Of Java; another one after each restart. */
  readonly pid: number
  /** False after `kill`, and when it ended by itself. */
  readonly alive: boolean
  /** Its data and whatever else it writes; removed by `stop`. */
  readonly folder: string
  /** The way in through `proxy`, not encrypted. The broker tells clients that come here the proxy's address and no other. */
  readonly proxied: readonly string[]
  readonly proxy: Proxy
  /** Up again on the same ports and data, after an orderly end if it runs: 1 s, and 3 s after `kill`. */
  restart(): Promise<void>
  /** SIGKILL. What was acknowledged is there after `restart`. */
  kill(): Promise<void>
  /** SIGSTOP: connections stay open, and nothing is answered. */
  pause(): void
  resume(): void
  /** Ends it and removes its data. It ends too when this process dies, however it dies. */
  stop(): Promise<void>
}

/** An install may be part of a start. */
const startMsMax = 300_000

/**
 * A `describe` over the broker that all suites of a run share: it is started for the first that asks, and nobody harms it. Where
 * Java cannot be had the suite is skipped, loudly and with the command that helps; with CI=true that is a failure.
 *
 * @param suite is given the broker, which runs while tests and hooks do
 */
export function describeWithKafka(name: string, suite: (kafka: KafkaAccess) => void): void {
  describeUnlessMissing(name, missingKafka(), () => {
    let access: KafkaAccess | undefined
    beforeAll(async () => {
      access = accessTo((await requestServer('kafka')) as KafkaAddress)
    }, startMsMax)
    suite(whenRunning(() => access))
  })
}

/** As `describeWithKafka`, over a broker of its own, which may be killed and halted: 1 s of a core and 200 MB. */
export function describeWithOwnKafka(name: string, suite: (kafka: Kafka) => void, tuning: BrokerTuning = {}): void {
  describeUnlessMissing(name, missingKafka(), () => {
    let broker: Kafka | undefined
    beforeAll(async () => {
      broker = await startKafka(tuning)
    }, startMsMax)
    afterAll(() => broker?.stop(), 30_000)
    suite(whenRunning(() => broker))
  })
}

/** Starts a broker on loopback, on ports that were free, with a data folder of its own. */
export async function startKafka(tuning: BrokerTuning = {}): Promise<Kafka> {
  const missing = missingKafka()
  if (missing !== undefined) throw new Error(missing)
  const program = await startableKafka()
  const folder = await freshFolder(program)
  const { ports, proxy, first } = await begin(program, folder, tuning)
    .catch((error: unknown) => {
      // Another process may take a port between our look and the broker's.
      if (!String(error).includes('already in use')) throw error
      return begin(program, folder, tuning)
    })
    .catch(async (error: unknown) => {
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
