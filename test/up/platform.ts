// Starts the platform in a separate process, like a user does, and sends HTTP requests to it.

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { cp, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describedAnswers } from '../described-answers/faults.ts'
import { requestServer } from '../servers/server-request.ts'

const ownRoot = new URL('../..', import.meta.url).pathname

export interface Platform {
  readonly url: string
  readonly process: ChildProcess
  /** Everything printed so far, on standard output and standard error. */
  printed(): string
  /** Resolves when the output contains this. */
  until(text: RegExp): Promise<void>
  /** Sends the signal and resolves with the exit code, or the signal's name. */
  stop(signal?: NodeJS.Signals): Promise<number | string>
}

export interface StartOptions {
  readonly data: string
  readonly arguments?: readonly string[]
  readonly environment?: Readonly<Record<string, string>>
  /** Runs `npm start` in this checkout, instead of `node main.ts up`. */
  readonly npmStartIn?: string
  /** Another checkout for `node main.ts up`. */
  readonly root?: string
}

/** By default a busy machine has time for a stop; tests of how long one takes give another number. */
export const patientStop = { SVC_PROCESS_STOP_SECONDS: '60' }

/** Tests register any number of users. */
const liftedBounds = { SVC_USERS_REGISTRATIONS_PER_HOUR: '0' }

/** The default: for tests of how long a stop takes, which end with 1 if it takes longer. */
export const promptStop = { SVC_PROCESS_STOP_SECONDS: '5' }

/** The environment without variables that change the platform's options. */
function environmentFor(root: string, extra: Readonly<Record<string, string>> = {}): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(([name]) => !name.startsWith('SVC_') && name !== 'NODE_ENV' && !name.startsWith('VITEST'))
  // Many platforms run at once, and an earlier release does not know the variable.
  const freePorts = existsSync(join(root, 'pipeline/mqtt')) ? { SVC_MQTT_PORT: '0' } : {}
  return { ...Object.fromEntries(kept), ...patientStop, ...liftedBounds, ...freePorts, ...extra }
}

/** Spawns the platform without waiting until it is ready. */
export function spawnPlatform(options: StartOptions): { child: ChildProcess; printed: () => string } {
  const { root = ownRoot } = options
  const upArguments = ['--port', '0', '--data', options.data, ...(options.arguments ?? [])]
  const child =
    options.npmStartIn === undefined
      ? spawn(process.execPath, [join(root, 'main.ts'), 'up', ...upArguments], {
          cwd: root,
          env: environmentFor(root, { ...describedAnswers(), ...options.environment }),
        })
      : spawn('npm', ['start', '--', ...upArguments], {
          cwd: options.npmStartIn,
          env: environmentFor(options.npmStartIn, options.environment),
        })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding('utf8')
    stream?.on('data', (text: string) => {
      output += text
    })
  }
  return { child, printed: () => output }
}

/** Resolves when the platform has printed that it is ready. */
export async function startPlatform(options: StartOptions): Promise<Platform> {
  const { child, printed } = spawnPlatform(options)
  const url = await new Promise<string>((resolve, reject) => {
    const look = (): void => {
      const ready = /^ready on (https?:\/\/\S+)$/m.exec(printed())
      if (ready !== null) resolve(ready[1]!)
    }
    child.stdout?.on('data', look)
    child.once('close', (code, signal) => reject(new Error(`the platform ended before it was ready (${code ?? signal}):\n${printed()}`)))
    child.once('error', reject)
  })
  return {
    url,
    process: child,
    printed,
    until: text =>
      new Promise(resolve => {
        const look = (): void => {
          if (text.test(printed())) resolve()
        }
        child.stderr?.on('data', look)
        look()
      }),
    async stop(signal = 'SIGTERM') {
      if (child.exitCode !== null || child.signalCode !== null) return child.exitCode ?? child.signalCode!
      // Later than 'exit': when everything printed has been read.
      const exit = once(child, 'close')
      child.kill(signal)
      const [code, name] = (await exit) as [number | null, NodeJS.Signals | null]
      return code ?? name!
    },
  }
}

/** A folder that is removed at the end of its scope: `await using folder = await disposableFolder()`. Also for benchmarks, which are not in a test. */
export async function disposableFolder(): Promise<{ path: string } & AsyncDisposable> {
  const path = await mkdtemp(join(tmpdir(), 'sluice-'))
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) }
}

/** Of the data folder that `startedFolder` copies. */
export const administrator = { email: 'chief@sluice.example', password: 'the chief of them all' }

/** The same with the data of a platform that was started once and stopped. A first start, which creates databases and keys, takes 3 s more of a core. */
export async function startedFolder(): Promise<{ path: string } & AsyncDisposable> {
  const folder = await disposableFolder()
  await cp((await requestServer('data-folder')) as string, folder.path, { recursive: true })
  return folder
}
