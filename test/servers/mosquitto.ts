// Starts Mosquitto servers for the tests: the MQTT broker that people have most often, from Debian's package.

import { mkdtemp, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describeWithServer } from './describe-with.ts'
import { missingService } from './install/apt.ts'
import { freePort } from './process/free-port.ts'
import { keep } from './process/keeper.ts'
import { type KeptServer, startKept } from './process/kept-server.ts'

export interface Mosquitto extends KeptServer {
  /** `mqtt://127.0.0.1:<port>` */
  readonly url: string
  readonly port: number
}

const program = '/usr/sbin/mosquitto'
const missingMosquitto = (): string | undefined => missingService('mosquitto', ['mosquitto'], [program])

/** A `describe` with a separate server; if it cannot be installed, like `describeWithPostgres`. */
export function describeWithMosquitto(name: string, suite: (mosquitto: Mosquitto) => void): void {
  describeWithServer(name, missingMosquitto(), startMosquitto, suite)
}

/** Without bounds on what waits for a client. Sessions outlive a restart with TERM. */
async function startMosquitto(): Promise<Mosquitto> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-mosquitto-'))
  const port = await freePort()
  const settings = {
    listener: `${port} 127.0.0.1`,
    allow_anonymous: true,
    user: 'root',
    persistence: true,
    persistence_location: `${folder}/`,
    max_inflight_messages: 0,
    max_queued_messages: 0,
    log_dest: 'stderr',
  }
  const file = join(folder, 'mosquitto.conf')
  const lines = Object.entries(settings).map(([name, value]) => `${name} ${value}\n`)
  await writeFile(file, lines.join(''))
  const launch = () => keep([program, '-c', file], { folder, isReady: line => line.endsWith(' running') })
  return { url: `mqtt://127.0.0.1:${port}`, port, ...(await startKept(folder, launch)) }
}
