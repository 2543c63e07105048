// Runs the servers shared by the suites of a run. Each is started on first use, because most runs need none; all end with the run.

import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { TestProject } from 'vitest/node'

interface Shared {
  /** The answer to requests for the server; plain data. */
  readonly address: unknown
  stop(): Promise<void>
}

const starts: Readonly<Record<string, () => Promise<Shared>>> = {
  kafka: async () => {
    const { startKafka } = await import('./kafka.ts')
    // It is never restarted, so its session may be long enough for a machine that stands still for some seconds.
    const kafka = await startKafka({ settings: { 'broker.session.timeout.ms': '30000' } })
    const { brokers, secured, classPath } = kafka
    return { address: { brokers, secured, classPath }, stop: () => kafka.stop() }
  },
  cassandra: async () => {
    const { startCassandra } = await import('./cassandra.ts')
    const cassandra = await startCassandra()
    return { address: cassandra.contactPoint, stop: () => cassandra.stop() }
  },
  influx: async () => {
    const { startInflux } = await import('./influx.ts')
    const influx = await startInflux()
    const { url, org, bucket, token } = influx
    return { address: { url, org, bucket, token }, stop: () => influx.stop() }
  },
  mongo: async () => {
    const { startMongo } = await import('./mongo.ts')
    const mongo = await startMongo()
    return { address: { url: mongo.url }, stop: () => mongo.stop() }
  },
  postgres: async () => {
    const { startPostgres } = await import('./postgres.ts')
    const postgres = await startPostgres({ settings: { max_connections: '300' } })
    return { address: postgres.url, stop: () => postgres.stop() }
  },
  // Beside an empty database, one with the schema of the control plane, to be copied: creating it takes longer than most suites.
  'control-plane-databases': async () => {
    const [{ createDatabase, startPostgres }, { openServer }, { migrate }, { migrations }] = await Promise.all([
      import('./postgres.ts'),
      import('../../database/server.ts'),
      import('../../database/migrate.ts'),
      import('../../control-plane/installation.ts'),
    ])
    const postgres = await startPostgres({ settings: { max_connections: '200' } })
    const migrated = 'migrated'
    const url = await createDatabase(postgres.url, migrated)
    const database = await openServer({ url, applicationName: 'sluice-test', connectionsMax: 1 })
    await migrate(database, migrations)
    await database.close()
    return { address: { url: postgres.url, migrated }, stop: () => postgres.stop() }
  },
  'data-folder': async () => {
    const { administrator, disposableFolder, startPlatform } = await import('../up/platform.ts')
    const folder = await disposableFolder()
    const environment = { SVC_ADMIN_EMAIL: administrator.email, SVC_ADMIN_PASSWORD: administrator.password }
    await (await startPlatform({ data: folder.path, environment })).stop()
    return { address: folder.path, stop: async () => folder[Symbol.asyncDispose]() }
  },
  registry: async () => {
    const { startRegistry } = await import('./registry.ts')
    const registry = await startRegistry()
    return { address: registry.url, stop: () => registry.stop() }
  },
}

/** Called by vitest before the first suite; vitest calls the returned function after the last. */
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
    // A server that could not be started has already reported that.
    const started = (await Promise.allSettled(running.values())).filter(one => one.status === 'fulfilled')
    await Promise.all(started.map(one => one.value.stop()))
  }
}
