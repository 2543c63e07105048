// A platform of the demonstration alone: `./sluice up` in a temporary folder, which is killed, started again, and removed at the end.

import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { ToolError } from '../streams.ts'
import { ask, signIn } from './ask.ts'

export type OwnPlatform = ReturnType<typeof openOwnPlatform>

const program = fileURLToPath(new URL('../../main.ts', import.meta.url))

export function openOwnPlatform() {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-demo-'))
  const [data, printed] = [join(folder, 'data'), join(folder, 'printed')]
  const output = openSync(printed, 'a')
  // Below the ports that systems give to clients: while the platform is away, a device that tries to connect could get this one itself.
  const port = String(randomInt(20_000, 30_000))
  const url = `http://127.0.0.1:${port}`
  // Without the options of a platform of the user.
  const environment = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('SVC_')))
  let child: ChildProcess | undefined

  function close(): void {
    child?.kill('SIGKILL')
    rmSync(folder, { recursive: true, force: true, maxRetries: 10 })
  }
  process.once('exit', close)

  return {
    url,
    data,
    /** Also again, on the same folder and address. @throws ToolError with what it printed */
    async start(): Promise<void> {
      const words = [program, 'up', '--port', port, '--data', data]
      child = spawn(process.execPath, words, { env: { ...environment, SVC_MQTT_PORT: '0' }, stdio: ['ignore', output, output] })
      while ((await ask(url, '/readyz').catch(() => '')) === '') {
        if (child.exitCode !== null || child.signalCode !== null)
          throw new ToolError(`the platform did not start:\n${readFileSync(printed, 'utf8')}`)
        await wait(50)
      }
    },
    async kill(): Promise<void> {
      const exit = once(child!, 'exit')
      child!.kill('SIGKILL')
      await exit
    },
    signIn: () => signIn(url, 'admin@sluice.local', readFileSync(join(data, 'admin-password'), 'utf8').trim()),
    verify({ authorization }: { authorization: string }): { readonly holds: boolean; readonly printed: string } {
      const words = [program, 'verify', 'relational', '--contents', '--url', url]
      const env = { ...environment, SVC_TOKEN: authorization.replace('Bearer ', '') }
      const { status, stdout, stderr } = spawnSync(process.execPath, words, { env, encoding: 'utf8' })
      return { holds: status === 0, printed: (stdout + stderr).trim() }
    },
    close,
  }
}
