// The roles `api`, `ingest` and `reader` as separate processes, with the queries that tests need.

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import type { StoreName } from '../../roles/stores/store.ts'
import { describedAnswers } from '../described-answers/faults.ts'
import { freePort } from '../servers/process/free-port.ts'
import { temporaryFolder } from '../temporary-folder.ts'
import { call } from '../up/operator.ts'
import { patientStop } from '../up/platform.ts'

const root = new URL('../..', import.meta.url).pathname

export const masterKey = Buffer.alloc(32, 9).fill(3, 5).toString('base64url')
export const token = 'a-token-that-processes-share'
export const administrator = { email: 'chief@sluice.example', password: 'the chief of them all' }

export interface Role {
  /** For users or devices. */
  readonly url: string
  readonly internalUrl: string
  readonly process: ChildProcess
  /** Everything printed so far, on standard output and standard error. */
  printed(): string
  /** Sends the signal and resolves with the exit code, or the signal's name. */
  stop(signal?: NodeJS.Signals): Promise<number | string>
}

type Environment = Readonly<Record<string, string>>

/** The tests' environment without variables that change a role's options. */
function environmentFor(extra: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(([name]) => !name.startsWith('SVC_') && name !== 'NODE_ENV' && !name.startsWith('VITEST'))
  return { ...Object.fromEntries(kept), ...patientStop, ...extra }
}

export interface Spawned {
  readonly child: ChildProcess
  readonly printed: () => string
  /** Resolves with the exit code, or the signal's name, when everything printed has been read. */
  readonly ended: Promise<number | string>
}

export function spawnRole(words: readonly string[], environment: NodeJS.ProcessEnv): Spawned {
  return spawnProgram(process.execPath, words, environmentFor({ ...describedAnswers(), ...environment }))
}

export function spawnProgram(program: string, words: readonly string[], environment: NodeJS.ProcessEnv): Spawned {
  const child = spawn(program, words, { cwd: root, env: environment })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8')
    stream.on('data', (text: string) => {
      output += text
    })
  }
  const ended = once(child, 'close').then(([code, signal]) => (code ?? signal) as number | string)
  onTestFinished(async () => {
    child.kill('SIGKILL')
    await ended
  })
  return { child, printed: () => output, ended }
}

function startRole(words: readonly string[], environment: Environment): Promise<Role> {
  return whenReady(spawnRole(words, environment))
}

/** Resolves when the role accepts requests. */
export async function whenReady({ child, printed, ended }: Spawned): Promise<Role> {
  const [internalUrl, url] = await new Promise<[string, string]>((resolve, reject) => {
    const look = (): void => {
      const ready = /^internal on (http\S+)\nready on (http\S+)$/m.exec(printed())
      if (ready !== null) resolve([ready[1]!, ready[2]!])
    }
    child.stdout!.on('data', look)
    look()
    void ended.then(code => reject(new Error(`the role ended before it was ready (${code}):\n${printed()}`)))
  })
  return {
    url,
    internalUrl,
    process: child,
    printed,
    async stop(signal = 'SIGTERM') {
      if (child.exitCode === null && child.signalCode === null) child.kill(signal)
      return ended
    },
  }
}

export const mainFile = join(root, 'main.ts')

export const apiWords = [mainFile, 'api', '--port', '0']

export const ingestWords = [mainFile, 'ingest', '--port', '0']

export function apiEnvironment(databaseUrl: string, extra: Environment = {}): Environment {
  return {
    SVC_DATABASE_URL: databaseUrl,
    SVC_MASTER_KEY: masterKey,
    SVC_CONTROL_TOKEN: token,
    SVC_INTERNAL_LISTEN: '127.0.0.1:0',
    SVC_ADMIN_EMAIL: administrator.email,
    SVC_ADMIN_PASSWORD: administrator.password,
    ...extra,
  }
}

export function startApi(databaseUrl: string, extra: Environment = {}): Promise<Role> {
  return startRole(apiWords, apiEnvironment(databaseUrl, extra))
}

/** An address for an internal listener that another process will use again. */
export async function internalAddress(): Promise<string> {
  return `127.0.0.1:${await freePort()}`
}

/** With its own embedded log. */
export function startIngest(controlUrl: string, extra: Environment = {}): Promise<Role> {
  return whenReady(spawnIngest(controlUrl, extra))
}

/** @param extra undefined values are left out */
export function spawnIngest(controlUrl: string, extra: NodeJS.ProcessEnv = {}): Spawned {
  return spawnRole([join(root, 'test/roles/ingest/ingest-process.ts')], {
    SVC_CONTROL_URL: controlUrl,
    SVC_CONTROL_TOKEN: token,
    SVC_HTTP_PORT: '0',
    SVC_INTERNAL_LISTEN: '127.0.0.1:0',
    TEST_LOG: join(temporaryFolder(), 'messages.sqlite'),
    ...extra,
  })
}

export function readerWordsOf(store: StoreName): string[] {
  return [mainFile, 'reader', store, '--port', '0']
}

export const readerWords = readerWordsOf('relational')

export function readerEnvironment(controlUrl: string, storeUrl: string, extra: Environment = {}): Environment {
  return {
    SVC_CONTROL_URL: controlUrl,
    SVC_CONTROL_TOKEN: token,
    SVC_RELATIONAL_URL: storeUrl,
    SVC_INTERNAL_LISTEN: '127.0.0.1:0',
    ...extra,
  }
}

/** With a relational store. */
export function startReader(controlUrl: string, storeUrl: string, extra: Environment = {}): Promise<Role> {
  return startRole(readerWords, readerEnvironment(controlUrl, storeUrl, extra))
}

/** Resolves when the check in `/health` has that state. */
export async function untilHealth(role: Pick<Role, 'internalUrl'>, check: string, status: 'pass' | 'fail'): Promise<void> {
  for (;;) {
    const { json } = await call(role.internalUrl, 'GET', '/health')
    const checks = json?.['checks'] as Record<string, [{ status: string }]>
    if (checks[check]?.[0].status === status) return
    await new Promise(resolve => setTimeout(resolve, 20))
  }
}

/** Resolves when the process has printed this. */
export async function untilPrinted({ printed }: Pick<Role, 'printed'>, text: RegExp): Promise<void> {
  while (!text.test(printed())) await new Promise(resolve => setTimeout(resolve, 20))
}

/** The last line that was printed, which says why a role ended: a log line, and so JSON. */
export function lastLine(printed: string): { level: string; msg: string; err: { type: string; code?: string } } {
  return JSON.parse(printed.trimEnd().split('\n').at(-1)!) as ReturnType<typeof lastLine>
}
