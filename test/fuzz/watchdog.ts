// Detects a case that never ends: a separate thread checks which case is running, and ends the process if it is the same for too long.

import { writeSync } from 'node:fs'
import { isMainThread, Worker, workerData } from 'node:worker_threads'
import { type Case, inputOf } from './fuzzer.ts'
import { kinds } from './kinds.ts'
import { bytesText, commandText } from './report.ts'

/** Much longer than the most expensive case on a busy machine, in seconds. */
export const endlessSecondsDefault = 60

/** Indexes in the shared memory of both threads: the number of cases, the current kind, and its case number. */
const Place = { count: 0, kind: 1, ordinal: 2 } as const
const places = 3

interface Watched {
  readonly memory: SharedArrayBuffer
  readonly seed: number
  readonly endlessSeconds: number
}

export interface Watchdog {
  /** Records which case runs next. */
  readonly begin: (one: Case) => void
  /** Resolves when watching has stopped. */
  readonly close: () => Promise<void>
}

/** Watches a run. A case that takes longer is printed on standard error with the command that repeats it, and the process ends by SIGKILL. */
export function openWatchdog(seed: number, endlessSeconds = endlessSecondsDefault): Watchdog {
  const memory = new SharedArrayBuffer(places * Int32Array.BYTES_PER_ELEMENT)
  const running = new Int32Array(memory)
  const numbers = new Map(kinds.map(({ name }, at) => [name, at]))
  const watched: Watched = { memory, seed, endlessSeconds }
  const worker = new Worker(new URL('./watchdog.ts', import.meta.url), { workerData: watched })
  return {
    begin({ kind, ordinal }) {
      Atomics.store(running, Place.kind, numbers.get(kind.name)!)
      Atomics.store(running, Place.ordinal, ordinal)
      Atomics.add(running, Place.count, 1)
    },
    async close() {
      await worker.terminate()
    },
  }
}

function watch({ memory, seed, endlessSeconds }: Watched): void {
  const running = new Int32Array(memory)
  let count = 0
  let sameSeconds = 0
  setInterval(() => {
    const now = Atomics.load(running, Place.count)
    sameSeconds = now === count ? sameSeconds + 1 : 0
    count = now
    if (count === 0 || sameSeconds < endlessSeconds) return
    const one: Case = { kind: kinds[Atomics.load(running, Place.kind)]!, ordinal: Atomics.load(running, Place.ordinal) }
    const lines = [
      `FAILED  it ends`,
      `  kind     ${one.kind.name}, case ${one.ordinal}, seed ${seed}, has run for ${endlessSeconds} s`,
      `  input    ${bytesText(inputOf(seed, one))}`,
      `  again    ${commandText(seed, one)}`,
    ]
    // The other thread is blocked, so it would print nothing.
    writeSync(2, `${lines.join('\n')}\n`)
    process.kill(process.pid, 'SIGKILL')
  }, 1000)
}

if (!isMainThread && (workerData as Partial<Watched> | null)?.memory !== undefined) watch(workerData as Watched)
