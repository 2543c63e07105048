// `sluice writer relational` as a separate process, with the queries that tests need.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import type { StoreName } from '../../roles/stores/store.ts'
import { describedAnswers } from '../described-answers/faults.ts'
import { patientStop } from '../up/platform.ts'
import type { BeginUpkeep, EndWorker } from './workers-of-writer.ts'

const root = new URL('../..', import.meta.url).pathname

export type Environment = Readonly<Record<string, string>>

export interface WriterProcess {
  readonly pid: number
  /** The public port. */
  readonly url: string
  readonly internalUrl: string
  /** Everything printed so far, on standard output and standard error. */
  printed(): string
  /** The exit code, or the signal's name. */
  readonly ended: Promise<number | string>
  /** The status of `/readyz`. */
  ready(): Promise<number>
  /** The status of `/health`, and the state of each check. */
  health(): Promise<{ status: number; checks: Readonly<Record<string, string>> }>
  /** By its labels, as written between the braces. */
  metrics(name: string): Promise<ReadonlyMap<string, number>>
  /** The sum of a metric over all labels, or over those with this text; NaN if it does not exist yet. */
  metric(name: string, label?: string): Promise<number>
  /** Everything logged so far. */
  logged(): readonly Readonly<Record<string, unknown>>[]
  /** Resident memory, in MiB. */
  residentMib(): Promise<number>
  /** Ends one of its worker threads, as if it had crashed. False if it has none, or has ended. */
  endWorker(nth: number): Promise<boolean>
  /** Begins the store's upkeep, which a writer does from time to time. */
  beginUpkeep(): void
  /** Sends the signal; resolves with its exit code or signal. */
  stop(signal?: NodeJS.Signals): Promise<number | string>
}

/** Starts `sluice` without waiting. @param folder of the release that runs */
function spawnSluice(words: readonly string[], environment: Environment, folder = root) {
  const kept = Object.entries(process.env).filter(([name]) => !/^(SVC_|NODE_ENV$|NODE_OPTIONS$|VITEST)/.test(name))
  const child = spawn(
    process.execPath,
    ['--import', new URL('workers-of-writer.ts', import.meta.url).href, join(folder, 'main.ts'), ...words],
    { cwd: folder, env: { ...Object.fromEntries(kept), ...describedAnswers(), ...environment }, stdio: ['ignore', 'pipe', 'pipe', 'ipc'] },
  )
  let output = ''
  for (const stream of [child.stdout!, child.stderr!]) {
    stream.setEncoding('utf8')
    stream.on('data', (text: string) => {
      output += text
    })
  }
  const ended = once(child, 'close').then(([code, signal]) => (code ?? signal) as number | string)
  return { child, ended, printed: () => output }
}

/** Runs a tool of `sluice` until it ends. @param folder of another release */
export function runSluice(
  words: readonly string[],
  environment: Environment,
  folder?: string,
): Promise<{ code: number | string; printed: string }> {
  return startTool(words, environment, folder).ended
}

/** Starts a tool of `sluice`; `kill` sends it SIGKILL. */
export function startTool(words: readonly string[], environment: Environment, folder?: string) {
  const { child, ended, printed } = spawnSluice(words, environment, folder)
  return {
    kill: () => void child.kill('SIGKILL'),
    ended: ended.then(code => ({ code, printed: printed() })),
  }
}

/** `sluice api` or `sluice ingest`. */
export interface RoleProcess extends Pick<WriterProcess, 'url' | 'internalUrl' | 'printed' | 'stop'> {}

/** Starts it, and resolves when it accepts requests. @throws Error with its output if it ends before */
export async function startRole(words: readonly string[], environment: Environment): Promise<RoleProcess> {
  const spawned = spawnSluice(words, { SVC_INTERNAL_LISTEN: '127.0.0.1:0', ...patientStop, ...environment })
  const [internalUrl, url] = await urlsOf(spawned, /^internal on (http\S+)\nready on (http\S+)$/m)
  return { url, internalUrl, printed: spawned.printed, stop: stopOf(spawned) }
}

/** What it prints when it listens. @throws Error with its output if it ends before */
function urlsOf({ child, ended, printed }: ReturnType<typeof spawnSluice>, pattern: RegExp): Promise<[string, string]> {
  return new Promise((resolve, reject) => {
    const look = (): void => {
      const found = pattern.exec(printed())
      if (found !== null) resolve([found[1]!, found[2]!])
    }
    child.stdout!.on('data', look)
    void ended.then(code => reject(new Error(`the process ended before it listened (${code}):\n${printed()}`)))
  })
}

function stopOf({ child, ended }: ReturnType<typeof spawnSluice>): WriterProcess['stop'] {
  return async (signal = 'SIGTERM') => {
    if (child.exitCode === null && child.signalCode === null) child.kill(signal)
    return await ended
  }
}

/**
 * Starts a writer and resolves when it serves health; its log and its store may be away. It ends with this process.
 *
 * @param folder of another release
 * @throws Error with its output if it ends before
 */
export async function startWriter(environment: Environment, store: StoreName = 'relational', folder?: string): Promise<WriterProcess> {
  const words = ['writer', store, '--port', '0']
  const spawned = spawnSluice(words, { SVC_INTERNAL_LISTEN: '127.0.0.1:0', ...patientStop, ...environment }, folder)
  const { child, ended, printed } = spawned
  const [internalUrl, url] = await urlsOf(spawned, /^internal on (http\S+)\nhealth on (http\S+)\/health$/m)

  async function metrics(name: string): Promise<Map<string, number>> {
    const text = await (await fetch(`${internalUrl}/metrics`)).text()
    const lines = text.matchAll(new RegExp(`^${name}(?:\\{([^}]*)\\})? (\\S+)$`, 'gm'))
    return new Map([...lines].map(([, labels = '', value]) => [labels, Number(value)]))
  }

  return {
    pid: child.pid!,
    url,
    internalUrl,
    printed,
    ended,
    ready: async () => (await fetch(`${url}/readyz`)).status,
    async health() {
      const answer = await fetch(`${url}/health`)
      const { checks } = (await answer.json()) as { checks: Record<string, [{ status: string }]> }
      return { status: answer.status, checks: Object.fromEntries(Object.entries(checks).map(([name, [one]]) => [name, one.status])) }
    },
    metrics,
    async metric(name, label = '') {
      const values = [...(await metrics(name))].filter(([labels]) => labels.includes(label))
      return values.length === 0 ? Number.NaN : values.reduce((sum, [, value]) => sum + value, 0)
    },
    logged: () =>
      printed()
        .split('\n')
        .filter(line => line.startsWith('{') && line.endsWith('}'))
        .map(line => JSON.parse(line) as Record<string, unknown>),
    async residentMib() {
      const status = await readFile(`/proc/${child.pid}/status`, 'utf8')
      return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)![1]) / 1024
    },
    async endWorker(nth) {
      const answer = once(child, 'message') as Promise<[{ ended: boolean }]>
      // The callback takes the error of a process that has just ended.
      child.send({ endWorker: nth } satisfies EndWorker, () => undefined)
      return Promise.race([answer.then(([said]) => said.ended), ended.then(() => false)])
    },
    beginUpkeep() {
      child.send({ beginUpkeep: true } satisfies BeginUpkeep)
    },
    stop: stopOf(spawned),
  }
}

/** Resolves when `/readyz` has this status. */
export async function untilReady(writer: WriterProcess, status = 200): Promise<void> {
  while ((await writer.ready()) !== status) await wait(20)
}
