// A second broker beside a running one, so that partitions have followers, and another leader if one dies.

import { randomBytes } from 'node:crypto'
import { readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { freePorts, freshFolder, launchBroker, startableKafka } from '../../servers/kafka/broker.ts'
import type { Kafka } from '../../servers/kafka.ts'

export interface SecondBroker {
  /** SIGKILL; the first broker leads its partitions 2 s later. */
  kill(): Promise<void>
  restart(): Promise<void>
  stop(): Promise<void>
}

/** Resolves when it has joined the cluster, as node 2. */
export async function joinCluster(first: Kafka): Promise<SecondBroker> {
  const program = await startableKafka()
  const folder = await freshFolder(program)
  const ports = await freePorts()
  const own = join(folder, 'data', 'meta.properties')
  const theirs = await readFile(join(first.folder, 'data', 'meta.properties'), 'utf8')
  await writeFile(
    own,
    theirs.replace(/^node\.id=.*$/m, 'node.id=2').replace(/^directory\.id=.*$/m, `directory.id=${randomBytes(16).toString('base64url')}`),
  )
  const settings = {
    'node.id': '2',
    'process.roles': 'broker',
    'controller.quorum.voters': `1@127.0.0.1:${controllerPort(await readFile(join(first.folder, 'server.properties'), 'utf8'))}`,
    listeners: `PLAIN://127.0.0.1:${ports.plain}`,
    'advertised.listeners': `PLAIN://127.0.0.1:${ports.plain}`,
  }
  const launch = () => launchBroker(program, folder, ports, { settings })
  let running = await launch()
  return {
    kill: () => running.end('KILL'),
    restart: async () => {
      running = await launch()
    },
    stop: async () => {
      await running.end('KILL')
      await rm(folder, { recursive: true, force: true })
    },
  }
}

function controllerPort(properties: string): string {
  return /^controller\.quorum\.voters=1@127\.0\.0\.1:(\d+)$/m.exec(properties)![1]!
}

/** Makes the first replica of each partition its leader again, if it is in sync. */
export async function electPreferredLeaders(kafka: Kafka): Promise<void> {
  const options = ['--bootstrap-server', kafka.brokers.join(), '--election-type', 'preferred', '--all-topic-partitions']
  await kafka.tool('LeaderElectionCommand', options)
}
