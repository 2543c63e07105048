// Faults of answers, written down until they fail a test: one file for the test's process and those that it starts.

import { appendFileSync, existsSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** Names the file, in the environment: processes that a test starts inherit it. */
const variable = 'DESCRIBED_ANSWERS'

/** From here on faults of this process, and of those that it starts with `describedAnswers`, are kept in a file of its own. */
export function keepFaults(): void {
  process.env[variable] ??= join(tmpdir(), `sluice-described-answers-${process.pid}`)
}

export function noteFault(fault: string): void {
  appendFileSync(process.env[variable]!, `${fault}\n`)
}

/** Those that were noted since the last call. */
export function takeFaults(): string[] {
  const file = process.env[variable]!
  if (!existsSync(file)) return []
  const faults = readFileSync(file, 'utf8').trimEnd().split('\n')
  rmSync(file)
  return faults
}

/** What a process gets in its environment so that its answers are held to their description; nothing outside of tests. */
export function describedAnswers(): Readonly<Record<string, string>> {
  if (process.env[variable] === undefined) return {}
  return { NODE_OPTIONS: `--import ${new URL('subscribe.ts', import.meta.url).href}` }
}
