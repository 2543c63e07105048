// The load of a run: `./sluice bench load` in a process of its own, and its ledger.

import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { readLedger } from '../../roles/tools/bench/ledger.ts'

export interface LoadSettings {
  readonly broker: string
  readonly topic: string
  /** A new file. */
  readonly ledger: string
  readonly messages: number
  /** Messages/s, each at its time; as fast as they are acknowledged if undefined. */
  readonly rate?: number
}

const execute = promisify(execFile)
const program = [join(import.meta.dirname, '../../main.ts'), 'bench', 'load']
/** As in the benchmarks of the writer. */
const fleet = ['--mix', 'record-json', '--devices', '20000', '--channels', '200']

/** @returns what was acknowledged, or an error if anything was not, unless it was stopped */
export function startLoad({ broker, topic, ledger: path, messages, rate }: LoadSettings) {
  const paced = rate === undefined ? [] : ['--rate', String(rate)]
  const running = execute(process.execPath, [...program, ...fleet, '--ledger', path, '--messages', String(messages), ...paced], {
    env: { ...process.env, SVC_LOG_BROKERS: broker, SVC_LOG_TOPIC: topic, SVC_RELATIONAL_URL: 'postgres://unused' },
  })
  let isStopped = false
  const ended = running.catch((cause: { stdout: string; stderr: string }) => {
    if (!isStopped) throw new Error(`the load was not acknowledged: ${cause.stdout}${cause.stderr}`, { cause })
  })
  return {
    ledger: ended.then(() => readLedger(path)),
    stop() {
      isStopped = true
      running.child.kill('SIGTERM')
    },
  }
}
