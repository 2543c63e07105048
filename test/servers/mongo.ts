// Starts a server with MongoDB's protocol for the tests: FerretDB on SQLite.

import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describeWithServer, describeWithShared } from './describe-with.ts'
import { freePort } from './process/free-port.ts'
import { type Kept, keep } from './process/keeper.ts'
import { flagsOf, goServer, type KeptServer, startKept } from './process/kept-server.ts'
import { requestServer } from './server-request.ts'

/** The last version that does not need PostgreSQL with a special extension. */
const version = 'v1.24.2'
export const mongoServer = goServer('ferretdb', {
  module: 'github.com/FerretDB/FerretDB',
  version,
  main: './cmd/ferretdb',
  flags: [],
  // Its own build writes these files; without them it does not start, or does not know its version.
  prepare: async sources => {
    const told = join(sources, 'build', 'version')
    await writeFile(join(told, 'version.txt'), `${version}\n`)
    for (const name of ['commit', 'branch', 'package']) await writeFile(join(told, `${name}.txt`), 'unknown\n')
  },
})

export interface MongoAccess {
  /** `mongodb://127.0.0.1:<port>/` */
  readonly url: string
}

/** A separate server, to be killed and frozen. */
export interface Mongo extends MongoAccess, KeptServer {}

/**
 * A `describe` with the server shared by all suites of a run: each uses databases of its own names. If it cannot be built the suite is skipped, with
 * what helps; with CI=true that is a failure.
 *
 * @param suite gets the server, which runs during tests and hooks
 */
export function describeWithMongo(name: string, suite: (mongo: MongoAccess) => void): void {
  describeWithShared(name, mongoServer.missing(), async () => (await requestServer('mongo')) as MongoAccess, suite)
}

/** The same with a separate server. */
export function describeWithOwnMongo(name: string, suite: (mongo: Mongo) => void): void {
  describeWithServer(name, mongoServer.missing(), startMongo, suite)
}

/** Starts a server on loopback, on a free port: 0.1 s and 60 MB; a minute the first time, when it is built. */
export async function startMongo(): Promise<Mongo> {
  const folder = await mongoServer.folder()
  await mkdir(join(folder, 'data'))
  const port = await freePort()
  const server = await startKept(folder, () => launch(folder, port))
  return {
    url: `mongodb://127.0.0.1:${port}/`,
    ...server,
  }
}

function launch(folder: string, port: number): Promise<Kept> {
  const flags = {
    'listen-addr': `127.0.0.1:${port}`,
    handler: 'sqlite',
    'sqlite-url': `file:${join(folder, 'data')}/`,
    'state-dir': folder,
    'debug-addr': '-',
    telemetry: 'disable',
    'log-level': 'INFO',
  }
  return keep([mongoServer.program(), ...flagsOf(flags)], {
    folder,
    isReady: line => line.includes('Listening on TCP'),
  })
}
