// How long `./sluice provision` takes for a fleet with the default layout, with `./sluice api` on a PostgreSQL server.
//
// Starts a PostgreSQL server, with fsync, and `./sluice api`, and maps a fleet with `./sluice provision`: each mapping makes a thing, two channels, their
// connections and a bootstrap configuration. Everything runs on this machine.
//
//   --devices <n>      of the fleet (default 1000)
//   --concurrency <n>  mappings at once, as of `./sluice provision` (default 8)
//   --turns <n>        fleets, one after the other (default 3)
//
// Examples:
//   npm run bench -- provision                               with the benchmark of certificates
//   npm run bench -- provision/fleet --devices 100 --turns 1   a quick look at the whole

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { parseArgs } from 'node:util'
import { generateSecret } from '../../config/secrets.ts'
import { startPostgres } from '../../test/servers/postgres.ts'

const { values } = parseArgs({
  options: {
    devices: { type: 'string', default: '1000' },
    concurrency: { type: 'string', default: '8' },
    turns: { type: 'string', default: '3' },
  },
})
const devices = Number(values.devices)
/** 20 s for a thousand devices on two cores. */
const secondsMax = (20 * devices) / 1_000
const main = new URL('../../main.ts', import.meta.url).pathname
const administrator = { email: 'bench@sluice.example', password: generateSecret() }

async function startApi(databaseUrl: string): Promise<{ url: string; stop: () => Promise<void> }> {
  const environment = {
    SVC_DATABASE_URL: databaseUrl,
    SVC_MASTER_KEY: generateSecret(),
    SVC_ADMIN_EMAIL: administrator.email,
    SVC_ADMIN_PASSWORD: administrator.password,
    SVC_INTERNAL_LISTEN: '127.0.0.1:0',
    SVC_LOGGING_LEVEL: 'warn',
  }
  const child = spawn(process.execPath, [main, 'api', '--port', '0'], {
    env: { ...process.env, ...environment },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  for await (const line of createInterface(child.stdout)) {
    const url = /ready on (http:\/\/\S+)/.exec(line)?.[1]
    if (url === undefined) continue
    const stop = async (): Promise<void> => {
      child.kill('SIGTERM')
      await once(child, 'exit')
    }
    return { url, stop }
  }
  throw new Error('./sluice api ended before it was ready')
}

async function signIn(url: string): Promise<string> {
  const headers = { 'content-type': 'application/json' }
  const response = await fetch(`${url}/tokens`, { method: 'POST', headers, body: JSON.stringify(administrator) })
  return ((await response.json()) as { token: string }).token
}

/** @returns seconds */
async function provision(url: string, token: string, fleet: string): Promise<number> {
  const words = [main, 'provision', fleet, '--url', url, '--concurrency', values.concurrency]
  const startedMs = performance.now()
  const child = spawn(process.execPath, words, { env: { ...process.env, SVC_TOKEN: token }, stdio: ['ignore', 'inherit', 'inherit'] })
  const [code] = (await once(child, 'exit')) as [number]
  if (code !== 0) throw new Error('not every device was mapped')
  return (performance.now() - startedMs) / 1000
}

async function measure(): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-bench-'))
  const postgres = await startPostgres({ fsync: true })
  try {
    const api = await startApi(await postgres.createDatabase())
    const token = await signIn(api.url)
    const seconds: number[] = []
    for (let turn = 0; turn < Number(values.turns); turn++) {
      const fleet = join(folder, `fleet-${turn}.csv`)
      const rows = Array.from({ length: devices }, (_, nth) => `bench-${turn}-${nth},${generateSecret()},device ${nth}\n`)
      await writeFile(fleet, `external_id,external_key,name\n${rows.join('')}`)
      seconds.push(await provision(api.url, token, fleet))
    }
    await api.stop()
    const median = seconds.toSorted((one, other) => one - other)[Math.floor(seconds.length / 2)]!
    const verdict = median <= secondsMax ? '' : '  missed'
    console.log(
      `${devices} devices by ${values.concurrency} at once: ${seconds.map(one => one.toFixed(1)).join(', ')} s, median ${median.toFixed(1)} s, ${(devices / median).toFixed(0)} mappings/s   target ${secondsMax} s${verdict}`,
    )
  } finally {
    await postgres.stop()
    await rm(folder, { recursive: true, force: true })
  }
}

await measure()
