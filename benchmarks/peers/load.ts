// The load of a run: `./sluice bench load` in a process of its own, and its ledger.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { type Ledger, readLedger } from '../../roles/tools/bench/ledger.ts'

export interface LoadSettings {
  readonly broker: string
  readonly topic: string
  /** A new file. */
  readonly ledger: string
  readonly messages: number
  /** Messages/s, each at its time; as fast as they are acknowledged if undefined. */
  readonly rate?: number
}

export interface StartedLoad {
  /** @throws Error if a message was not acknowledged */
  readonly ledger: Promise<Ledger>
  /** What was sent until then is in the ledger. */
  stop(): void
}

/** Devices as in the benchmarks of the writer: 20,000 of them. */
const fleet = ['--mix', 'record-json', '--devices', '20000', '--channels', '200']

export function startLoad({ broker, topic, ledger: path, messages, rate }: LoadSettings): StartedLoad {
  const words = [
    '--ledger',
    path,
    '--messages',
    String(messages),
    ...(rate === undefined ? [] : ['--rate', String(rate)]),
    ...fleet,
    '--json',
  ]
  const child = spawn(process.execPath, [join(import.meta.dirname, '../../main.ts'), 'bench', 'load', ...words], {
    env: { ...process.env, SVC_LOG_BROKERS: broker, SVC_LOG_TOPIC: topic, SVC_RELATIONAL_URL: 'postgres://unused' },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let isStopped = false
  async function ended(): Promise<Ledger> {
    const [printed, [code]] = await Promise.all([text(child.stdout), once(child, 'exit')])
    if (code !== 0 && !isStopped) throw new Error(`the load was not acknowledged: ${printed}`)
    return readLedger(path)
  }
  return {
    ledger: ended(),
    stop() {
      isStopped = true
      child.kill('SIGTERM')
    },
  }
}
