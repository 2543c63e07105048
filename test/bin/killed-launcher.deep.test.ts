// SIGKILL for each process between the user and the platform: none leaves the platform behind, and the next start succeeds.

import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { freePort } from '../servers/process/free-port.ts'
import { temporaryFolder } from '../temporary-folder.ts'

const root = fileURLToPath(new URL('../../', import.meta.url))

/** The process and its descendants, outermost first. */
function chainOf(pid: number): number[] {
  const lines = execFileSync('ps', ['-A', '-o', 'pid=,ppid='], { encoding: 'utf8' }).trim().split('\n')
  const pairs = lines.map(line => line.trim().split(/\s+/).map(Number) as [pid: number, parent: number])
  const below = (parent: number): number[] => [parent, ...pairs.filter(pair => pair[1] === parent).flatMap(pair => below(pair[0]))]
  return below(pid)
}

/** Starts `sluice up` in the clone and resolves with its processes when it is ready. */
async function startUp([command, ...words]: readonly string[], folder: string, port: number, signal: AbortSignal) {
  const environment = Object.entries(process.env).filter(([name]) => !/^(npm_|SVC_|VITEST|NODE_ENV$)/.test(name))
  const child = spawn(command!, [...words, 'up', '--port', String(port), '--data', join(folder, 'data')], {
    cwd: root,
    env: { ...Object.fromEntries(environment), npm_config_cache: join(folder, 'npm') },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let output = ''
  await new Promise<void>((resolve, reject) => {
    const look = (chunk: Buffer): void => {
      output += chunk.toString()
      if (/^ready on /m.test(output)) resolve()
    }
    for (const stream of [child.stdout, child.stderr]) stream.on('data', look)
    child.on('close', code => reject(new Error(`ended with ${code} before it was ready: ${output}`)))
  })
  return { processes: chainOf(child.pid!), closed: once(child, 'close', { signal }) }
}

function killAll(processes: readonly number[]): void {
  for (const pid of processes) {
    try {
      process.kill(pid, 'SIGKILL')
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
    }
  }
}

const ways: readonly [string, (folder: string) => readonly string[], least: number][] = [
  ['./sluice', () => ['./sluice'], 1],
  ['bin/sluice.js under an older Node', folder => [process.execPath, '--require', join(folder, 'older.cjs'), 'bin/sluice.js'], 2],
  ['npm exec', () => ['npm', 'exec', '--no', '--', 'sluice'], 2],
]

test.for(ways)(
  '%s: whichever of its processes is killed, all end, and the next start has the port and the data',
  async ([, command, least], { signal }) => {
    const folder = temporaryFolder()
    writeFileSync(
      join(folder, 'older.cjs'),
      "Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '20.1.0' } })",
    )
    const port = await freePort()
    let chain = await startUp(command(folder), folder, port, signal)
    onTestFinished(() => killAll(chain.processes))
    expect(chain.processes.length).toBeGreaterThanOrEqual(least)
    for (let victim = 0; victim < chain.processes.length; victim++) {
      process.kill(chain.processes[victim]!, 'SIGKILL')
      // Their standard output closes when the last of them has ended.
      await chain.closed
      chain = await startUp(command(folder), folder, port, signal)
    }
  },
)
