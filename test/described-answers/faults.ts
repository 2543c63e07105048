// Faults of answers, stored until they fail a test: one file for the test's process and the processes it starts.

import { appendFileSync, existsSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** The environment variable with the file's path, which started processes inherit. */
const variable = 'DESCRIBED_ANSWERS'

/** From here on, faults of this process and of those that it starts with `describedAnswers` are stored in a new file. */
export function keepFaults(): void {
  process.env[variable] ??= join(tmpdir(), `sluice-described-answers-${process.pid}`)
}

export function noteFault(fault: string): void {
  appendFileSync(process.env[variable]!, `${fault}\n`)
}

/** The faults since the last call. */
export function takeFaults(): string[] {
  const file = process.env[variable]!
  if (!existsSync(file)) return []
  const faults = readFileSync(file, 'utf8').trimEnd().split('\n')
  rmSync(file)
  return faults
}

/** The environment with which a started process checks its answers; empty outside of tests. */
export function describedAnswers(): Readonly<Record<string, string>> {
  if (process.env[variable] === undefined) return {}
  return { NODE_OPTIONS: `--import ${new URL('subscribe.ts', import.meta.url).href}` }
}
