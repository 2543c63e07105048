// Starts an OpenFGA server for the tests, with its data in a SQLite file.

import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { promisify } from 'node:util'
import { describeWithServer } from './describe-with.ts'
import { freePort } from './process/free-port.ts'
import { type Kept, keep } from './process/keeper.ts'
import { flagsOf, goServer, type KeptServer, startKept } from './process/kept-server.ts'

export const openFgaServer = goServer('openfga', { module: 'github.com/openfga/openfga', version: 'v1.22.1', main: './cmd/openfga' })

export interface OpenFga extends KeptServer {
  /** `http://127.0.0.1:<port>` */
  readonly url: string
  /** Its preshared key. */
  readonly key: string
}

/** A `describe` with a separate server; if it cannot be built, like `describeWithMongo`. */
export function describeWithOpenFga(name: string, suite: (openfga: OpenFga) => void): void {
  describeWithServer(name, openFgaServer.missing(), startOpenFga, suite)
}

/** Starts a server on loopback, on a free port. */
async function startOpenFga(): Promise<OpenFga> {
  const folder = await openFgaServer.folder()
  const store = ['--datastore-engine=sqlite', `--datastore-uri=file:${join(folder, 'openfga.db')}`]
  await promisify(execFile)(openFgaServer.program(), ['migrate', ...store])
  const [port, grpcPort] = [await freePort(), await freePort()]
  const key = 'a key that the tests share'
  const server = await startKept(folder, launch)
  async function launch(): Promise<Kept> {
    const flags = {
      'http-addr': `127.0.0.1:${port}`,
      'grpc-addr': `127.0.0.1:${grpcPort}`,
      'playground-enabled': 'false',
      'metrics-enabled': 'false',
      'log-level': 'info',
      'authn-method': 'preshared',
      'authn-preshared-keys': key,
    }
    const kept = await keep([openFgaServer.program(), 'run', ...store, ...flagsOf(flags)], {
      folder,
      isReady: line => line.includes('starting HTTP server'),
    })
    // It reports ready before it listens.
    for (;;) {
      const answer = await fetch(`http://127.0.0.1:${port}/healthz`).catch(() => undefined)
      if (answer?.ok === true) return kept
      await wait(20)
    }
  }
  return {
    url: `http://127.0.0.1:${port}`,
    key,
    ...server,
  }
}
