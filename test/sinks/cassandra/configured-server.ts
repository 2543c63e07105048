// A Cassandra of its own settings, for what the one that the suites share does not do.

import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { vi } from 'vitest'
import { cassandraYaml, javaFlags, logbackXml } from '../../servers/cassandra-settings.ts'
import { cachePath } from '../../servers/install/cache.ts'
import { freePort } from '../../servers/process/free-port.ts'
import { keep } from '../../servers/process/keeper.ts'

export interface ConfiguredCassandra {
  readonly contactPoint: string
  stop(): Promise<void>
}

/** The libraries are installed: a suite over the shared server has been asked for. */
const libraries = (): string => join(cachePath('cassandra', '5.0.9'), 'lib')

/**
 * @param configure makes the node's cassandra.yaml from that of the other suites, and files beside it in its folder
 * @param readySentence is logged when it is up
 */
export async function startConfiguredCassandra(
  configure: (yaml: string, folder: string) => string | Promise<string>,
  readySentence = 'Startup complete',
): Promise<ConfiguredCassandra> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-cassandra-'))
  const places = { folder, port: await freePort(), storagePort: await freePort() }
  for (const name of ['conf', 'tmp']) await mkdir(join(folder, name))
  await writeFile(join(folder, 'conf', 'cassandra.yaml'), await configure(cassandraYaml(places), folder))
  await writeFile(join(folder, 'conf', 'logback.xml'), logbackXml)
  const agent = readdirSync(libraries()).find(name => /^jamm-.*\.jar$/.test(name))!
  const classPath = `${join(folder, 'conf')}:${join(libraries(), '*')}`
  const node = await keep(
    ['java', ...javaFlags(folder, join(libraries(), agent)), '-cp', classPath, 'org.apache.cassandra.service.CassandraDaemon'],
    { folder, isReady: line => line.includes(readySentence) },
  )
  const contactPoint = `127.0.0.1:${places.port}`
  // It may log the sentence before it listens.
  await vi.waitUntil(() => accepts(contactPoint), { timeout: 60_000 })
  return {
    contactPoint,
    async stop() {
      await node.end('KILL')
      await rm(folder, { recursive: true, force: true })
    },
  }
}

/** @param address `host:port` */
async function accepts(address: string): Promise<boolean> {
  const [host, port] = address.split(':')
  const socket = connect(Number(port), host)
  const isConnected = await once(socket, 'connect').then(
    () => true,
    () => false,
  )
  socket.destroy()
  return isConnected
}
