// Runs the servers that the suites of a run share. Each is started for the first that asks, since most runs need none; all end with the run.

import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { TestProject } from 'vitest/node'

interface Shared {
  /** What is told to who asks; plain data. */
  readonly address: unknown
  stop(): Promise<void>
}

const starts: Readonly<Record<string, () => Promise<Shared>>> = {
  kafka: async () => {
    const { startKafka } = await import('./kafka.ts')
    const kafka = await startKafka()
    const { brokers, secured, classPath } = kafka
    return { address: { brokers, secured, classPath }, stop: () => kafka.stop() }
  },
  cassandra: async () => {
    const { startCassandra } = await import('./cassandra.ts')
    const cassandra = await startCassandra()
    return { address: cassandra.contactPoint, stop: () => cassandra.stop() }
  },
  registry: async () => {
    const { startRegistry } = await import('./registry.ts')
    const registry = await startRegistry()
    return { address: registry.url, stop: () => registry.stop() }
  },
}

/** Called by vitest before the first suite; resolves with what it calls after the last. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const running = new Map<string, Promise<Shared>>()
  const answer = async (name: string, response: ServerResponse): Promise<void> => {
    const start = starts[name]
    if (start === undefined) return void response.writeHead(404).end(`no server is called ${name}: add it to run-setup.ts`)
    const server = running.get(name) ?? start()
    running.set(name, server)
    try {
      response.end(JSON.stringify((await server).address))
    } catch (error) {
      response.writeHead(500).end(String(error))
    }
  }
  const server = createServer((request, response) => void answer(request.url?.slice(1) ?? '', response))
  await once(server.listen(0, '127.0.0.1'), 'listening')
  project.provide('servers', `http://127.0.0.1:${(server.address() as AddressInfo).port}`)

  return async () => {
    server.close()
    server.closeAllConnections()
    // One that could not be started has said so to who asked.
    const started = (await Promise.allSettled(running.values())).filter(one => one.status === 'fulfilled')
    await Promise.all(started.map(one => one.value.stop()))
  }
}
